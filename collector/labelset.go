package collector

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// labelSet is the label values of a series in the order of the catalogue, or the first of
// them. It is not changed once it is made.
type labelSet struct {
	base  *labelSet
	given []string // what follows those of base, as it was given
}

func (l *labelSet) is(base *labelSet, given []string) bool {
	return l.base == base && slices.Equal(l.given, given)
}

// values appends all values to a list, as they can be exposed. Only so do they reach a
// page, and none can break it.
func (l *labelSet) values(list []string) []string {
	if l == nil {
		return list
	}
	list = l.base.values(list)
	for _, s := range l.given {
		list = append(list, labelvalue.Valid(s))
	}
	return list
}

// key returns a string that equal values share and different ones do not: the separator
// is no valid UTF-8.
func (l *labelSet) key() string {
	var room [16]string
	return strings.Join(l.values(room[:0]), "\xff")
}

// decimal returns an optional number, empty if it is not known.
func decimal(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}
