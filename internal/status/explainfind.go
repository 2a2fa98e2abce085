package status

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Query selects the charge that is explained.
type Query struct {
	// GPU is an index, a UUID or the beginning of a UUID, a serial number, or a PCI address. It may
	// be empty if the node has only one GPU.
	GPU string
	// Owner has the form namespace/pod, namespace/pod/container or manager/unit, or it is a UID. It can also be the
	// name of a pod or unit, if the name is unique. For a unit, it can also be the text on the page, such as job 4711.
	Owner string
	// Since is the length of the explained period. The period ends at the time until which the GPU's energy has been
	// charged.
	Since time.Duration
}

// DefaultSince is the length of the period that is explained by default.
const DefaultSince = 10 * time.Minute

// ParseQuery returns the query with the parameters of a request.
func ParseQuery(v url.Values) (Query, error) {
	q := Query{GPU: v.Get("gpu"), Owner: v.Get("owner"), Since: DefaultSince}
	if since := v.Get("since"); since != "" {
		d, err := time.ParseDuration(since)
		if err != nil || d <= 0 {
			return q, queryError("--since=%s: must be a positive time, such as 10m", shown(since))
		}
		q.Since = d
	}
	return q, nil
}

func queryError(format string, args ...any) error {
	return QueryError(fmt.Sprintf(format, args...))
}

// Values returns the query as parameters of a request.
func (q Query) Values() url.Values {
	return url.Values{"gpu": {q.GPU}, "owner": {q.Owner}, "since": {q.Since.String()}}
}

// findGPU returns the selected GPU. It returns an error if the exporter has no intervals for this GPU.
func (q Query) findGPU(s *gpu.Snapshot) (*gpu.GPU, error) {
	var found []*gpu.GPU
	for _, match := range []func(*gpu.GPU) bool{q.isGPU, q.beginsGPU} {
		for i := range s.GPUs {
			if match(&s.GPUs[i]) {
				found = append(found, &s.GPUs[i])
			}
		}
		if len(found) > 0 {
			break
		}
	}
	list := make([]string, 0, len(s.GPUs))
	for i := range s.GPUs {
		list = append(list, boardName(&s.GPUs[i]))
	}
	known := "; the GPUs are " + strings.Join(list, ", ")
	switch {
	case len(s.GPUs) == 0:
		return nil, queryError("the node has no GPU")
	case len(found) == 0:
		return nil, queryError("--gpu=%s: no such GPU%s", shown(q.GPU), known)
	case len(found) > 1:
		return nil, queryError("--gpu=%s: selects %d GPUs%s", shown(q.GPU), len(found), known)
	case found[0].Book == nil:
		return nil, queryError("--gpu=%s: no energy is charged on this GPU", shown(q.GPU))
	case found[0].Intervals == nil:
		return nil, queryError("the exporter keeps no intervals: set its flags --explain.period and --explain.max-bytes")
	}
	return found[0], nil
}

func boardName(g *gpu.GPU) string {
	name := "lost"
	if g.Present {
		name = strconv.Itoa(g.Index)
	}
	return fmt.Sprintf("%s (%s, serial %s)", name, shown(g.UUID), or(identity(g.Serial)))
}

func (q Query) isGPU(g *gpu.GPU) bool {
	if q.GPU == "" || g.Present && q.GPU == strconv.Itoa(g.Index) {
		return true
	}
	return slices.ContainsFunc([]string{g.UUID, g.Serial, g.PCIBusID}, func(name string) bool { return strings.EqualFold(name, q.GPU) })
}

// beginsGPU reports whether the UUID of a GPU begins with the given text. A small number is an index and never the
// beginning of a UUID, even if the GPU with this index was lost.
func (q Query) beginsGPU(g *gpu.GPU) bool {
	if _, err := strconv.ParseUint(q.GPU, 10, 8); err == nil {
		return false
	}
	name, prefix := strings.ToLower(g.UUID), strings.ToLower(q.GPU)
	return strings.HasPrefix(name, prefix) || strings.HasPrefix(strings.TrimPrefix(name, "gpu-"), prefix)
}

// findOwner returns the full name of the selected owner. It also returns a function that reports
// whether a charge belongs to this owner.
func (q Query) findOwner(g *gpu.GPU) (name string, owns func(gpu.Owner) bool, err error) {
	owners := ownersOf(g)
	for _, by := range []func(gpu.Owner) []string{
		func(o gpu.Owner) []string { return []string{fullName(o)} },
		func(o gpu.Owner) []string { return []string{fullName(o.Group()), o.UID} },
		func(o gpu.Owner) []string { return []string{o.Name, unitName(o.Scope, o.Name)} },
	} {
		names := make(map[string]bool)
		for _, o := range owners {
			if slices.Contains(by(o), q.Owner) && q.Owner != "" {
				name = fullName(o.Group())
				if fullName(o) == q.Owner {
					name = q.Owner
				}
				names[name] = true
			}
		}
		if len(names) == 1 {
			return shown(name), func(o gpu.Owner) bool { return slices.Contains(by(o), q.Owner) }, nil
		}
		if len(names) > 1 {
			return "", nil, queryError("--owner=%s: selects several owners%s", shown(q.Owner), suggest(owners, q.Owner))
		}
	}
	if q.Owner == "" {
		return "", nil, queryError("--owner: must be namespace/pod, namespace/pod/container or manager/unit%s", suggest(owners, ""))
	}
	return "", nil, queryError("--owner=%s: no such owner on this GPU%s", shown(q.Owner), suggest(owners, q.Owner))
}

func ownersOf(g *gpu.GPU) []gpu.Owner {
	all := make(map[gpu.Owner]bool)
	for i := range g.Book.Accounts {
		all[g.Book.Accounts[i].Owner] = true
	}
	for iv := range g.Intervals {
		for i := range iv.Charges {
			if c := &iv.Charges[i]; c.Kind.HasAccount() {
				all[c.Owner] = true
			}
		}
	}
	owners := make([]gpu.Owner, 0, len(all))
	for o := range all {
		owners = append(owners, o)
	}
	slices.SortFunc(owners, gpu.Owner.Compare)
	return owners
}

func fullName(o gpu.Owner) string {
	name := o.Scope + "/" + o.Name
	if o.Part != "" {
		name += "/" + o.Part
	}
	return name
}

const maxSuggestions = 8

// suggest returns a text with the names of owners. Names that are similar to the given name come first.
func suggest(owners []gpu.Owner, like string) string {
	var similar, others []string
	for _, o := range owners {
		if name := fullName(o); like != "" && (strings.Contains(name, like) || strings.Contains(like, o.Name)) {
			similar = append(similar, shown(name))
		} else {
			others = append(others, shown(name))
		}
	}
	list := append(similar, others...)
	if len(list) == 0 {
		return "; nothing is charged to any owner"
	}
	if more := len(list) - maxSuggestions; more > 0 {
		list = append(list[:maxSuggestions], fmt.Sprintf("and %d more", more))
	}
	return "; the owners are " + strings.Join(list, ", ")
}
