package ask

import (
	"cmp"
	"slices"
)

const (
	maxClosest = 3
	// A name is suggested only if its distance from the unknown name is at most maxDistance.
	maxDistance = 3
)

func closest(name string, all []string) (found []string) {
	distances := make(map[string]int)
	for _, other := range all {
		if d := distance(name, other); d <= maxDistance {
			distances[other] = d
			found = append(found, other)
		}
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(distances[a]-distances[b], cmp.Compare(a, b)) })
	return found[:min(len(found), maxClosest)]
}

// distance returns the number of edits that turn a into b. An edit inserts, removes or replaces a byte, or swaps two
// neighbouring bytes.
func distance(a, b string) int {
	if max(len(a)-len(b), len(b)-len(a)) > maxDistance {
		return maxDistance + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
