package collector

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

type labelSet struct {
	base  *labelSet
	given []string // names and values of additional labels, in the caller's order
}

func (l *labelSet) matches(base *labelSet, given []string) bool {
	return l.base == base && slices.Equal(l.given, given)
}

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

// key returns a string that is unique for these labels. The separator in this string is
// invalid UTF-8, so no label contains the separator.
func (l *labelSet) key() string {
	var b strings.Builder
	for _, value := range l.all() {
		b.WriteString(labelvalue.Valid(value))
		b.WriteByte(0xff)
	}
	return b.String()
}

func decimal(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}
