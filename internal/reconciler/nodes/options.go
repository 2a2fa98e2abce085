package nodes

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/nodelabel"
	"github.com/gpuledger/gpuledger/internal/reconciler/exporter"
)

// Options configures [Nodes].
type Options struct {
	Exporters exporter.Options
	Rules     nodelabel.Rules
	// Resources is a pattern for the names of extended resources for GPUs.
	Resources *regexp.Regexp
	// Expected contains the labels of Nodes that should have an exporter, in the form key=value.
	Expected cli.List
	// Listed reports whether the expected inventory contains a board for a Node. It is nil without an expected
	// inventory.
	Listed func(node string) bool

	Resync time.Duration
	// Confirm is the interval between two readings of an exporter. Labels change only after two readings return the
	// same inventory.
	Confirm time.Duration
	// LabelTTL is the time for which labels remain after a Node has lost its exporter. If it is 0, they remain as long
	// as the Node exists.
	LabelTTL time.Duration
	// Concurrency and Rate limit the requests to exporters. Writes limits the writes of Nodes. Rate and Writes are
	// numbers per second.
	Concurrency int
	Rate        float64
	Writes      float64
	// TakeOver is the name of another field manager. With the scheme gpuid, this program takes over the labels of this
	// field manager.
	TakeOver string
	DryRun   bool
	// Condition enables the Node condition GPULedgerHealthy.
	Condition bool
}

// Register adds the flags with their defaults.
func (o *Options) Register(fs *flag.FlagSet) {
	o.Exporters.Register(fs)
	o.Expected = cli.List{"nvidia.com/gpu.present=true", "feature.node.kubernetes.io/pci-10de.present=true", "feature.node.kubernetes.io/pci-0302_10de.present=true"}
	fs.StringVar((*string)(&o.Rules.Scheme), "label-scheme", string(nodelabel.Own), "label `scheme`: gpuledger, or gpuid for the labels of mchmarny/gpuid")
	fs.StringVar(&o.Rules.Prefix, "label-prefix", "", "label key `prefix` (default gpuledger.io, or gpuid.github.com with that scheme)")
	fs.StringVar(&o.Rules.ChassisFallback, "label-chassis-fallback", "", "`value` for the label chassis if no GPU reports a chassis, such as none-{node}")
	fs.BoolVar(&o.Rules.DMIChassis, "label-dmi-chassis", false, "add the label dmi-chassis with the chassis serial of the machine's firmware")
	fs.DurationVar(&o.LabelTTL, "label-ttl", 24*time.Hour, "`time` for which labels remain on a Node without an exporter; 0 keeps the labels permanently")
	fs.StringVar(&o.TakeOver, "label-take-over", "gpuid", "field `manager` whose labels are taken over with --label-scheme=gpuid; empty disables this")
	fs.TextVar(&o.Expected, "expected-labels", o.Expected, "comma-separated `labels` of Nodes that should have an exporter, as key=value")
	fs.DurationVar(&o.Resync, "resync", 10*time.Minute, "`interval` between two readings of an unchanged exporter")
	fs.DurationVar(&o.Confirm, "confirm", 10*time.Second, "`interval` between the two equal readings that a change of labels requires")
	fs.IntVar(&o.Concurrency, "exporter.concurrency", 16, "`maximum` number of concurrent exporter requests, not counting hanging requests")
	fs.Float64Var(&o.Rate, "exporter.rate", 200, "`maximum` number of exporter requests per second")
	fs.Float64Var(&o.Writes, "write-rate", 20, "`maximum` number of Node writes per second")
	fs.BoolVar(&o.Condition, "node-condition", false, "set the condition GPULedgerHealthy of each Node to the advice of the Node's exporter; see docs/health.md")
	fs.BoolVar(&o.DryRun, "dry-run", false, "log the writes without performing them")
}

// Validate makes the checks that the flag package cannot make, and sets defaults that depend on other flags.
func (o *Options) Validate() error {
	if o.Rules.Prefix == "" {
		o.Rules.Prefix = nodelabel.OwnPrefix
		if o.Rules.Scheme == nodelabel.GPUID {
			o.Rules.Prefix = nodelabel.GPUIDPrefix
		}
	}
	errs := []error{o.Exporters.Validate()}
	if err := o.Rules.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--label-*: %w", err))
	}
	for _, label := range o.Expected {
		if key, _, ok := strings.Cut(label, "="); !ok || key == "" {
			errs = append(errs, fmt.Errorf("--expected-labels: %q is not key=value", label))
		}
	}
	atLeast := func(flag string, least, d time.Duration) {
		if d < least {
			errs = append(errs, fmt.Errorf("--%s=%v: must be at least %v", flag, d, least))
		}
	}
	positive := func(flag string, n float64) {
		if n <= 0 {
			errs = append(errs, fmt.Errorf("--%s=%v: must be more than 0", flag, n))
		}
	}
	atLeast("resync", time.Second, o.Resync)
	atLeast("confirm", 100*time.Millisecond, o.Confirm)
	atLeast("label-ttl", 0, o.LabelTTL)
	positive("exporter.concurrency", float64(o.Concurrency))
	positive("exporter.rate", o.Rate)
	positive("write-rate", o.Writes)
	return errors.Join(errs...)
}
