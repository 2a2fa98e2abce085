package collector

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// labelSet is the labels of a series, or some of them. It is not changed once it is made.
type labelSet struct {
	base  *labelSet
	given []string // names and values beside those of base, as they were given
}

func (l *labelSet) matches(base *labelSet, given []string) bool {
	return l.base == base && slices.Equal(l.given, given)
}

// all returns names and values, those of base first.
func (l *labelSet) all() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if l == nil {
			return
		}
		for name, value := range l.base.all() {
			if !yield(name, value) {
				return
			}
		}
		for i := 0; i < len(l.given); i += 2 {
			if !yield(l.given[i], l.given[i+1]) {
				return
			}
		}
	}
}

// key returns a string that labels which are shown alike share and different ones do not:
// the separator is no valid UTF-8.
func (l *labelSet) key() string {
	var b strings.Builder
	for _, value := range l.all() {
		b.WriteString(labelvalue.Valid(value))
		b.WriteByte(0xff)
	}
	return b.String()
}

// decimal returns an optional number, empty if it is not known.
func decimal(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}
