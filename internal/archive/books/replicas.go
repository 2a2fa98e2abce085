package books

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// foldOnce computes the rows of an hour. If two replicas of Prometheus stored the same counter, it uses only one of the
// two series.
func foldOnce(in fold.Input) (*table.Hour, error) {
	h, err := fold.Fold(in)
	if errors.Is(err, fold.ErrReplicas) {
		in.Series = choose(in.Series)
		h, err = fold.Fold(in)
	}
	return h, err
}

// choose returns one of the overlapping series of each counter: the series with the most samples. If several have the
// same number of samples, it returns the first in the order of labels. It does not merge the series, because the merged
// counter would seem to fall.
func choose(series []fold.Series) (chosen []fold.Series) {
	order := func(a, b fold.Series) int {
		return cmp.Or(len(b.Samples)-len(a.Samples), cmp.Compare(fmt.Sprint(byName(a.Labels)), fmt.Sprint(byName(b.Labels))))
	}
	accounts := make(map[fold.Account][]fold.Series)
	for _, s := range slices.SortedFunc(slices.Values(series), order) {
		a, counter := fold.AccountOf(s.Labels)
		if counter && slices.ContainsFunc(accounts[a], func(other fold.Series) bool { return overlap(s.Samples, other.Samples) }) {
			continue
		}
		accounts[a] = append(accounts[a], s)
		chosen = append(chosen, s)
	}
	return chosen
}

func byName(l fold.Labels) fold.Labels {
	return slices.SortedFunc(slices.Values(l), func(a, b fold.Label) int { return cmp.Compare(a.Name, b.Name) })
}

func overlap(a, b []fold.Sample) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	return a[0].Time <= b[len(b)-1].Time && b[0].Time <= a[len(a)-1].Time
}
