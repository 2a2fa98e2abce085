package ledger

import (
	"cmp"
	"math/bits"
	"slices"
)

// apportion allocates memory only for its result if there are at most usualOwners weights. A GPU rarely has more
// owners.
const usualOwners = 16

// apportion divides an amount by weights so that the sum of the parts is exactly the amount. It first rounds each part
// down to whole units (millijoules or nanoseconds). Then it adds the remaining units to the parts with the largest
// remainders. If two remainders are equal, the earlier part gets the unit, so callers sort the parts. The amount must
// not be negative, and at least one weight must be positive.
func apportion[T ~int64](amount T, weights []uint64) []T {
	var total uint64
	for _, w := range weights {
		total += w
	}
	parts := make([]T, len(weights))
	remainders := make([]uint64, 0, usualOwners)
	left := amount
	for i, w := range weights {
		hi, lo := bits.Mul64(uint64(amount), w)
		quotient, remainder := bits.Div64(hi, lo, total)
		parts[i], remainders = T(quotient), append(remainders, remainder)
		left -= parts[i]
	}
	order := make([]int, 0, usualOwners)
	for i := range weights {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(remainders[b], remainders[a]) })
	for _, i := range order[:left] {
		parts[i]++
	}
	return parts
}
