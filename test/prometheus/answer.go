package prometheus

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// An Answer contains the expected samples of a query. The labels By identify a sample.
type Answer struct {
	By   []string
	Want map[string]float64 // expected values; the key contains the values of By, separated by spaces
	Off  float64            // maximum absolute error
	Part float64            // maximum relative error, in addition to the absolute error
}

// Differences returns the differences between the answer and a result, one per line.
func (a Answer) Differences(got []Sample) []string {
	var wrong []string
	seen := make(map[string]bool)
	for _, s := range got {
		key := s.key(a.By)
		want, ok := a.Want[key]
		switch {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("unexpected: %v = %v", s.Labels, s.Value))
		case seen[key]:
			wrong = append(wrong, fmt.Sprintf("%q twice: %v", key, s.Labels))
		// This negated comparison is true for NaN.
		case !(math.Abs(s.Value-want) <= a.Off+a.Part*math.Abs(want)):
			wrong = append(wrong, fmt.Sprintf("%q is %v, want %v", key, s.Value, want))
		}
		seen[key] = true
	}
	for key, want := range a.Want {
		if !seen[key] {
			wrong = append(wrong, fmt.Sprintf("%q is missing, want %v", key, want))
		}
	}
	slices.Sort(wrong)
	return wrong
}

func (s Sample) key(by []string) string {
	values := make([]string, 0, len(by))
	for _, name := range by {
		values = append(values, s.Labels[name])
	}
	return strings.Join(values, " ")
}
