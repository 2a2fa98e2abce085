package nodelabel

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"unique"

	"github.com/gpuledger/gpuledger/internal/inventory"
)

// Scheme is a way to name labels.
type Scheme string

// The schemes.
const (
	// Own is the scheme of docs/design.md.
	Own Scheme = "gpuledger"
	// GPUID writes the labels that mchmarny/gpuid writes.
	GPUID Scheme = "gpuid"
)

// The prefixes of the schemes' keys.
const (
	OwnPrefix   = "gpuledger.io"
	GPUIDPrefix = "gpuid.github.com"
)

// Rules say how an inventory becomes labels. The zero value is not valid; see
// [Rules.Validate].
type Rules struct {
	Scheme Scheme
	// Prefix stands before the slash of every label's key.
	Prefix string
	// ChassisFallback is the value of the label chassis on Nodes whose GPUs name
	// none, with {node} replaced by the Node's name; empty for no label. Kueue
	// leaves a Node out that lacks the label of any level of its topology.
	ChassisFallback string
	// DMIChassis adds the chassis serial number that the machine's firmware
	// knows, under a key of its own: for a tray it is often another number than
	// the one its GPUs know.
	DMIChassis bool
}

// Desired is what a Node should bear. Its keys and values are legal, and the same
// inventory always gives the same ones.
type Desired struct {
	Labels      map[string]string
	Annotations map[string]string
	// Lost are the keys of the labels that name GPUs which are not present, and may be
	// on another Node by now.
	Lost []string
}

// Equal reports whether a Node should bear the same by both.
func (d Desired) Equal(o Desired) bool {
	return maps.Equal(d.Labels, o.Labels) && maps.Equal(d.Annotations, o.Annotations)
}

// InventoryKey is the key of the annotation. It stays under our own prefix in the
// scheme of gpuid, which had no annotation.
func (r Rules) InventoryKey() string {
	if r.Scheme == GPUID {
		return OwnPrefix + "/inventory"
	}
	return r.Prefix + "/inventory"
}

// Desired returns what a Node should bear. A Node without GPUs bears nothing.
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

// shared returns the one copy of a string that is held: what thousands of Nodes should
// bear is mostly what they do bear.
func shared(s string) string { return unique.Make(s).Value() }

// Validate checks the rules. Its errors name what is wrong, not the flag.
func (r Rules) Validate() error {
	var errs []error
	if r.Scheme != Own && r.Scheme != GPUID {
		errs = append(errs, fmt.Errorf("unknown scheme %q: want %s or %s", r.Scheme, Own, GPUID))
	}
	if err := validPrefix(r.Prefix); err != nil {
		errs = append(errs, err)
	}
	if f := strings.ReplaceAll(r.ChassisFallback, "{node}", "n"); legal(f) != f {
		errs = append(errs, fmt.Errorf("fallback %q is no legal label value: want letters, digits, -, _ and . with a letter or digit at both ends", r.ChassisFallback))
	}
	return errors.Join(errs...)
}

// validPrefix checks that a prefix is a lower-case DNS name that is not reserved for
// Kubernetes itself.
func validPrefix(prefix string) error {
	for label := range strings.SplitSeq(prefix, ".") {
		bad := strings.ContainsFunc(label, func(c rune) bool { return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') })
		if label == "" || len(label) > 63 || bad || strings.Trim(label, "-") != label {
			return fmt.Errorf("prefix %q is no DNS name", prefix)
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
