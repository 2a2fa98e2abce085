package injector

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
	"github.com/gpuledger/gpuledger/internal/reconciler/certificate"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
	"github.com/gpuledger/gpuledger/internal/sidecar"
)

// Injector serves the webhook.
type Injector struct {
	opts   Options
	log    *slog.Logger
	counts counts

	parameters  atomic.Pointer[sidecar.Parameters] // nil if the ConfigMap does not exist
	certificate certificate.Holder
	secret      atomic.Pointer[corev1.Secret]                                        // nil if the Secret does not exist
	webhook     atomic.Pointer[admissionregistrationv1.MutatingWebhookConfiguration] // nil unless the configuration exists and this replica is the leader
	changed     chan struct{}                                                        // contains an element after a change of the Secret or the webhook
	synced      atomic.Bool                                                          // set when the ConfigMap was read, or is known not to exist

	rejected sync.Once // logs the first rejection of the certificate
}

// New returns an injector that has neither parameters nor a certificate. Run reads the parameters and the certificate.
func New(opts Options, log *slog.Logger) *Injector {
	return &Injector{opts: opts, log: log, counts: newCounts(), changed: make(chan struct{}, 1)}
}

// Handler returns the handler for the webhook's path.
func (i *Injector) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST "+sidecar.Path, i)
	return mux
}

// Certificate returns the holder of the server's certificate.
func (i *Injector) Certificate() *certificate.Holder { return &i.certificate }

// NotReady returns the reason why the webhook is not ready, or an empty string.
func (i *Injector) NotReady() string {
	switch {
	case i.certificate.Expiry().IsZero():
		return "the webhook has no certificate yet"
	case !i.synced.Load():
		return "the webhook has not read its parameters yet"
	}
	return ""
}

// Rejected counts a connection whose client rejected the certificate. It logs the first rejection.
func (i *Injector) Rejected() {
	i.count(certificateRejected)
	i.rejected.Do(func() {
		i.log.Warn("a client rejects the webhook's certificate: caBundle of the MutatingWebhookConfiguration must contain the authority that signed the certificate", "secret", sidecar.ServiceName)
	})
}

// Run reads the parameters and the certificate until the context ends.
func (i *Injector) Run(ctx context.Context, kube apiserver.Client, failures *watch.Failures) {
	var all sync.WaitGroup
	defer all.Wait()
	parameters := watch.Informer(kube.ConfigMaps(i.opts.Namespace), &corev1.ConfigMap{}, watch.Named(sidecar.ParametersName))
	failures.Follow(parameters, watch.ConfigMaps)
	registration, _ := parameters.AddEventHandler(handler(i.setParameters)) // the call fails only for a stopped informer
	all.Go(func() { parameters.RunWithContext(ctx) })
	all.Go(func() { i.synced.Store(cache.WaitForCacheSync(ctx.Done(), registration.HasSynced)) })
	if i.opts.Certificates != "" {
		i.certificate.Follow(ctx, i.opts.Certificates, i.log)
		return
	}
	secrets := watch.Informer(kube.Secrets(i.opts.Namespace), &corev1.Secret{}, watch.Named(sidecar.ServiceName))
	failures.Follow(secrets, watch.Secrets)
	_, _ = secrets.AddEventHandler(handler(i.setSecret))
	secrets.RunWithContext(ctx)
}

// handler calls set with the current object, and with nil after the object was deleted.
func handler[T any](set func(*T)) cache.ResourceEventHandlerFuncs {
	present := func(object any) {
		if o, ok := object.(*T); ok {
			set(o)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    present,
		UpdateFunc: func(_, object any) { present(object) },
		DeleteFunc: func(any) { set(nil) },
	}
}

func (i *Injector) setParameters(from *corev1.ConfigMap) {
	if from == nil {
		i.parameters.Store(nil)
		return
	}
	i.parameters.Store(new(sidecar.Parse(from.Data)))
}

// setSecret keeps the last valid certificate if the Secret is deleted or invalid.
func (i *Injector) setSecret(from *corev1.Secret) {
	i.secret.Store(from)
	if from != nil && len(from.Data[certificate.Server]) > 0 {
		if err := i.certificate.Set(from.Data[certificate.Server], from.Data[certificate.ServerKey]); err != nil {
			i.log.Error("the Secret of the webhook has an invalid certificate", "secret", from.Name, "err", err)
		}
	}
	i.signal()
}

func (i *Injector) signal() {
	select {
	case i.changed <- struct{}{}:
	default:
	}
}
