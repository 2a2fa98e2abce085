package workloads

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuledger/gpuledger/internal/cli"
)

const (
	snapshotsNone = "none"
	snapshotsLog  = "log"
	snapshotsSend = "send"
)

// The default patterns match the resources of the device plugins of NVIDIA and AMD, and the device classes of the DRA
// drivers of both vendors.
const (
	defaultResources     = `^(nvidia\.com/(gpu|gpu\.shared|mig-.+)|amd\.com/(gpu|[a-z]+_nps[0-9]+))$`
	defaultDeviceClasses = `^((gpu|mig|vfio)\.nvidia|gpu\.amd)\.com$`
)

// Options configures [Workloads].
type Options struct {
	// Resources matches the names of GPU resources. DeviceClasses matches the names of GPU device classes.
	Resources, DeviceClasses cli.Pattern
	// Retention is the time for which the series of a pod remain after the pod has ended.
	Retention time.Duration
	// PodLabels and PodAnnotations contain the keys of exported labels and annotations.
	PodLabels, PodAnnotations cli.List
	// If OwnerLabels is set, a label in PodLabels that a pod lacks comes from the nearest owner with this label.
	OwnerLabels bool
	// Events enables the event log. With Snapshots=log or send, a snapshot of the pod follows the pod's events.
	Events    bool
	Snapshots string
	// Output is the writer for the event log. If it is nil, the events are written to standard output.
	Output io.Writer
	// Archive also receives the events. It is nil if no archive is configured.
	Archive Archive
}

// Archive receives events.
type Archive interface {
	// Send sends the line of an event. It does not block.
	Send(line []byte)
	// Repeat sends all events that describe the current state. It is called with nil when this replica is no longer the
	// leader.
	Repeat(current iter.Seq[[]byte])
}

// Register adds the flags with their defaults.
func (o *Options) Register(fs *flag.FlagSet) {
	fs.TextVar(&o.Resources, "resource-pattern", cli.MustPattern(defaultResources), "`regexp` of GPU resource names")
	fs.TextVar(&o.DeviceClasses, "device-class-pattern", cli.MustPattern(defaultDeviceClasses), "`regexp` of GPU device classes")
	fs.DurationVar(&o.Retention, "retention", 5*time.Minute, "`time` for which the series of a pod remain after the pod has ended; should be at least three scrape intervals")
	fs.TextVar(&o.PodLabels, "pod-labels", cli.List{}, "comma-separated `names` of pod labels to export in gpuledger_pod_labels")
	fs.BoolVar(&o.OwnerLabels, "pod-labels-of-owners", false, "if a label named in --pod-labels is missing on a pod, take the label from the nearest owner that has it")
	fs.TextVar(&o.PodAnnotations, "pod-annotations", cli.List{}, "comma-separated `names` of pod annotations to export in gpuledger_pod_annotations")
	fs.BoolVar(&o.Events, "events", true, "write one line of JSON to standard output for each change of a GPU pod: phase, conditions, containers, spec")
	fs.StringVar(&o.Snapshots, "snapshots", snapshotsNone, "`mode` of pod snapshots: none; log, which writes snapshots to the log and sends them to the archive; or send, which only sends them to the archive. Snapshots accompany events, and omit commands, arguments and environment values")
}

// Validate makes the checks that the flag package cannot make.
func (o *Options) Validate() error {
	var errs []error
	if o.Retention < time.Second {
		errs = append(errs, fmt.Errorf("--retention=%v: must be at least 1s", o.Retention))
	}
	switch {
	case o.Snapshots != snapshotsNone && o.Snapshots != snapshotsLog && o.Snapshots != snapshotsSend:
		errs = append(errs, fmt.Errorf("--snapshots=%s: must be none, log or send", o.Snapshots))
	case o.Snapshots == snapshotsLog && !o.Events:
		errs = append(errs, errors.New("--snapshots=log requires --events"))
	}
	return errors.Join(append(errs,
		validKeys(flagPodLabels, "label_", o.PodLabels),
		validKeys(flagPodAnnotations, "annotation_", o.PodAnnotations))...)
}

// validKeys checks a list of label or annotation keys. It also rejects different keys that would become the same label
// name.
func validKeys(flag, prefix string, keys []string) error {
	seen := make(map[string]string)
	for i, name := range labelNames(prefix, keys) {
		if problems := validation.IsQualifiedName(keys[i]); len(problems) > 0 {
			return fmt.Errorf("%s: %q is not a valid name of a label or annotation", flag, keys[i])
		}
		if other, ok := seen[name]; ok {
			return fmt.Errorf("%s: %q and %q would both become %s", flag, other, keys[i], name)
		}
		seen[name] = keys[i]
	}
	return nil
}

func (o *Options) ownerLabels() []string {
	if !o.OwnerLabels {
		return nil
	}
	return o.PodLabels
}

func (o *Options) output() io.Writer {
	if o.Output == nil {
		return os.Stdout
	}
	return o.Output
}

func (o *Options) follows() bool { return o.Events || o.Archive != nil }

// SendsSnapshots reports whether snapshots are sent to the archive and not logged.
func (o *Options) SendsSnapshots() bool { return o.Snapshots == snapshotsSend }
