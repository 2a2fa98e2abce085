package nodelabel

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"unique"

	"github.com/gpuledger/gpuledger/internal/inventory"
)

// Scheme names a set of labels.
type Scheme string

const (
	// Own is this program's own scheme (docs/labels.md).
	Own Scheme = "gpuledger"
	// GPUID is the scheme of mchmarny/gpuid.
	GPUID Scheme = "gpuid"
)

// The prefixes of label keys, by scheme.
const (
	OwnPrefix   = "gpuledger.io"
	GPUIDPrefix = "gpuid.github.com"
)

// Rules defines how an inventory becomes labels. The zero value is invalid.
type Rules struct {
	Scheme Scheme
	// Prefix is the part of every label key before the slash.
	Prefix string
	// ChassisFallback is the value of the label chassis if no GPU of a Node reports a chassis, with {node} for the
	// Node's name. If it is empty, such a Node has no label chassis. Kueue ignores a Node without the label of a
	// topology level.
	ChassisFallback string
	// DMIChassis adds a label with the chassis serial number from the machine's firmware. This label has its own key,
	// because the firmware of a tray and the GPUs in it often report different serial numbers.
	DMIChassis bool
}

// Desired is the desired state of a Node. Keys and values are valid. Equal inventories have equal desired states.
type Desired struct {
	Labels      map[string]string
	Annotations map[string]string
	// Lost contains the label keys of lost GPUs. Such a GPU may now be in another Node.
	Lost []string
}

// Equal reports whether the labels and annotations are equal. It ignores Lost.
func (d Desired) Equal(o Desired) bool {
	return maps.Equal(d.Labels, o.Labels) && maps.Equal(d.Annotations, o.Annotations)
}

// InventoryKey returns the key of the annotation. The scheme gpuid has no annotation, so its key has the prefix of this
// program's own scheme.
func (r Rules) InventoryKey() string {
	if r.Scheme == GPUID {
		return OwnPrefix + "/inventory"
	}
	return r.Prefix + "/inventory"
}

// Desired returns the desired state of a Node. A Node without GPUs gets no labels.
func (r Rules) Desired(node string, p inventory.Page) Desired {
	gpus := ordered(p.GPUs)
	if len(gpus) == 0 {
		return Desired{}
	}
	labels, lost := r.ownScheme(node, p, gpus)
	if r.Scheme == GPUID {
		labels, lost = gpuid(gpus), nil
	}
	d := Desired{
		Labels:      make(map[string]string, len(labels)),
		Annotations: map[string]string{r.InventoryKey(): shared(annotation(p, gpus))},
	}
	for name, value := range labels {
		d.Labels[shared(r.Prefix+"/"+name)] = value
	}
	for _, name := range lost {
		d.Lost = append(d.Lost, shared(r.Prefix+"/"+name))
	}
	return d
}

// shared returns the interned copy of a string. This saves memory, because most desired labels of thousands of Nodes
// equal the actual labels.
func shared(s string) string { return unique.Make(s).Value() }

// Validate returns errors about invalid rules. The caller must add the name of the flag.
func (r Rules) Validate() error {
	var errs []error
	if r.Scheme != Own && r.Scheme != GPUID {
		errs = append(errs, fmt.Errorf("unknown scheme %q: must be %s or %s", r.Scheme, Own, GPUID))
	}
	if err := validPrefix(r.Prefix); err != nil {
		errs = append(errs, err)
	}
	if f := strings.ReplaceAll(r.ChassisFallback, "{node}", "n"); legal(f) != f {
		errs = append(errs, fmt.Errorf("fallback %q is not a valid label value: use letters, digits, -, _ and ., with a letter or digit at both ends", r.ChassisFallback))
	}
	return errors.Join(errs...)
}

// validPrefix returns an error unless the prefix is a lower-case DNS name that is not reserved for Kubernetes.
func validPrefix(prefix string) error {
	for label := range strings.SplitSeq(prefix, ".") {
		bad := strings.ContainsFunc(label, func(c rune) bool { return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') })
		if label == "" || len(label) > 63 || bad || strings.Trim(label, "-") != label {
			return fmt.Errorf("prefix %q is not a DNS name", prefix)
		}
	}
	if len(prefix) > 253 {
		return fmt.Errorf("prefix %q is longer than 253 characters", prefix)
	}
	for _, reserved := range []string{"kubernetes.io", "k8s.io"} {
		if prefix == reserved || strings.HasSuffix(prefix, "."+reserved) {
			return fmt.Errorf("prefix %q is reserved for Kubernetes", prefix)
		}
	}
	return nil
}
