package workloads

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuledger/gpuledger/internal/cli"
)

// The modes of snapshots.
const (
	snapshotsNone = "none"
	snapshotsLog  = "log"
)

// What asks for a GPU unless the flags say otherwise: the resources of NVIDIA's
// device plugin, and the device classes of its DRA driver.
const (
	defaultResources     = `^nvidia\.com/(gpu|gpu\.shared|mig-.+)$`
	defaultDeviceClasses = `^(gpu|mig|vfio)\.nvidia\.com$`
)

// Options is what the flags say of the workloads.
type Options struct {
	// Resources matches the names of extended resources that are GPUs, and
	// DeviceClasses those of device classes of claims.
	Resources, DeviceClasses cli.Pattern
	// Retention is how long the series of a pod stay after it ended.
	Retention time.Duration
	// PodLabels and PodAnnotations are the keys that are shown.
	PodLabels, PodAnnotations cli.List
	// Events says whether events are written, Snapshots whether with the whole pod.
	Events    bool
	Snapshots string
	// Output is where the events go, standard output if it is nil.
	Output io.Writer
}

// Register adds the flags, with their defaults.
func (o *Options) Register(fs *flag.FlagSet) {
	fs.TextVar(&o.Resources, "resource-pattern", cli.MustPattern(defaultResources), "`regexp` of GPU resource names")
	fs.TextVar(&o.DeviceClasses, "device-class-pattern", cli.MustPattern(defaultDeviceClasses), "`regexp` of GPU device classes")
	fs.DurationVar(&o.Retention, "retention", 5*time.Minute, "`time` that the series of a pod stay after it ended; at least three scrape intervals")
	fs.TextVar(&o.PodLabels, "pod-labels", cli.List{}, "`names` of the pods' labels to show in gpuledger_pod_labels, with commas between")
	fs.TextVar(&o.PodAnnotations, "pod-annotations", cli.List{}, "`names` of the pods' annotations to show in gpuledger_pod_annotations, with commas between")
	fs.BoolVar(&o.Events, "events", true, "write a line of JSON to standard output for each change of a GPU pod's phase, conditions, containers and spec")
	fs.StringVar(&o.Snapshots, "snapshots", snapshotsNone, "`mode` of full pods beside the events: none, or log for a line with the pod, without commands, arguments and values of the environment")
}

// Validate checks what the flag package cannot.
func (o *Options) Validate() error {
	var errs []error
	if o.Retention < time.Second {
		errs = append(errs, fmt.Errorf("--retention=%v: want at least 1s", o.Retention))
	}
	switch {
	case o.Snapshots != snapshotsNone && o.Snapshots != snapshotsLog:
		errs = append(errs, fmt.Errorf("--snapshots=%s: want none or log", o.Snapshots))
	case o.Snapshots == snapshotsLog && !o.Events:
		errs = append(errs, errors.New("--snapshots=log: needs --events"))
	}
	return errors.Join(append(errs,
		validKeys(flagPodLabels, "label_", o.PodLabels),
		validKeys(flagPodAnnotations, "annotation_", o.PodAnnotations))...)
}

// validKeys refuses what is no key, and keys that would be one label.
func validKeys(flag, prefix string, keys []string) error {
	seen := make(map[string]string)
	for i, name := range labelNames(prefix, keys) {
		if problems := validation.IsQualifiedName(keys[i]); len(problems) > 0 {
			return fmt.Errorf("%s: %q is no name of a label or annotation", flag, keys[i])
		}
		if other, ok := seen[name]; ok {
			return fmt.Errorf("%s: %q and %q would both be %s", flag, other, keys[i], name)
		}
		seen[name] = keys[i]
	}
	return nil
}

func (o *Options) output() io.Writer {
	if o.Output == nil {
		return os.Stdout
	}
	return o.Output
}
