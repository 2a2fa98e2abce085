package reconciler

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/prometheus/common/version"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/gpuledger/gpuledger/internal/reconciler/expected"
	"github.com/gpuledger/gpuledger/internal/reconciler/injector"
	"github.com/gpuledger/gpuledger/internal/reconciler/nodes"
	"github.com/gpuledger/gpuledger/internal/reconciler/outbox"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
	"github.com/gpuledger/gpuledger/internal/reconciler/workloads"
	"github.com/gpuledger/gpuledger/internal/serve"
	"github.com/gpuledger/gpuledger/internal/sidecar"
)

type program struct {
	cfg       Config
	log       *slog.Logger
	election  election
	failures  *watch.Failures
	nodes     *nodes.Nodes
	workloads *workloads.Workloads
	expected  *expected.Inventory // nil if there is no expected inventory
	outbox    *outbox.Outbox      // nil if no events are sent to an archive
	injector  *injector.Injector  // nil if the webhook is disabled
}

// Run serves until the context ends. For the command "cleanup", Run removes the labels and returns.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	// client-go logs partly to the context's logger and partly to the global logger of klog.
	klog.SetSlogLogger(log)
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(log.Handler()))
	if cfg.Cleanup {
		return clean(ctx, cfg, log)
	}
	return run(ctx, cfg, log)
}

// run serves its pages even if the API server does not respond or rejects requests.
func run(ctx context.Context, cfg Config, log *slog.Logger) error {
	log.Info("starting", "version", version.Version, "revision", version.GetRevision())
	p := &program{
		cfg: cfg, log: log,
		election: election{lease: cfg.Lease, log: log},
		failures: watch.New(log),
	}
	if cfg.Events.URL != "" {
		p.outbox = outbox.New(cfg.Events, log)
		cfg.Workloads.Archive = p.outbox
	}
	p.workloads = workloads.New(cfg.Workloads, log)
	if cfg.Expected != "" {
		p.expected = expected.New(cfg.Expected, log)
		cfg.Labels.Listed = p.expected.Lists
	}
	p.nodes = nodes.New(cfg.Labels, log)
	if cfg.Webhook.Address != "" {
		p.injector = injector.New(cfg.Webhook, log)
	}
	server := serve.New(cfg.Serve, log)
	handler, err := p.handler(server.Collector())
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Run(ctx, handler) })
	if p.expected != nil {
		g.Go(func() error { return p.expected.Run(ctx) })
	}
	if p.outbox != nil {
		g.Go(func() error { return p.outbox.Run(ctx) })
	}
	if p.injector != nil {
		webhook := p.webhook(server)
		g.Go(func() error { return webhook.Run(ctx, p.injector.Handler()) })
	}
	g.Go(func() error {
		c, err := connect(ctx, cfg.Kubeconfig, log)
		if err != nil {
			return nil // the context ended
		}
		if p.injector != nil {
			g.Go(func() error { p.injector.Run(ctx, c.watches, p.failures); return nil })
		}
		return p.election.Run(ctx, c.kube, func(ctx context.Context) error { return p.lead(ctx, c) })
	})
	return g.Wait()
}

// webhook returns the server for the webhook. It has the same limits as the main server.
func (p *program) webhook(beside *serve.Server) *serve.Server {
	webhook := beside.Beside(p.cfg.Webhook.Address, serve.TLS{Certificate: p.injector.Certificate().Get, Rejected: p.injector.Rejected})
	webhook.Receive(sidecar.Path)
	return webhook
}

// lead runs the enabled parts while this replica is the leader. An informer cannot be run twice, so each call of lead
// creates new informers. The parts for labels and for workloads share the informers for pods.
func (p *program) lead(ctx context.Context, c cluster) error {
	g, ctx := errgroup.WithContext(ctx)
	pods := p.podInformers(c.watches)
	if p.cfg.runs(partLabels) {
		g.Go(func() error {
			return p.nodes.Run(ctx, nodes.Cluster{Watches: c.watches, Kube: c.kube, Pods: pods, Record: newRecord(c, p.cfg.Lease), Failures: p.failures})
		})
	}
	if p.cfg.runs(partWorkloads) {
		g.Go(func() error {
			return p.workloads.Run(ctx, workloads.Cluster{Watches: c.watches, Server: c.kinds, Metadata: c.metadata, Dynamic: c.dynamic, Pods: pods[0], Failures: p.failures})
		})
	}
	if p.injector != nil {
		g.Go(func() error { p.injector.Lead(ctx, c.watches, c.kube, p.failures); return nil })
	}
	for _, informer := range pods {
		g.Go(func() error { informer.RunWithContext(ctx); return nil })
	}
	return g.Wait()
}

// clean holds the Lease while it removes this program's labels. Otherwise a leader would write the labels again.
func clean(ctx context.Context, cfg Config, log *slog.Logger) error {
	c, err := open(cfg.Kubeconfig)
	if err != nil {
		return err
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	e := election{lease: cfg.Lease, log: log}
	return e.Run(ctx, c.kube, func(ctx context.Context) error {
		defer done()
		return nodes.Cleanup(ctx, c.kube, cfg.Labels, log)
	})
}
