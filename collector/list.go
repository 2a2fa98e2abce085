package collector

import "slices"

// list is written over from its start. Behind what was written stands what it had there.
type list[T any] struct {
	items []T
	next  int // where the next item goes
}

// last returns the item that stands where the next one goes, nil if there is none.
func (l *list[T]) last() *T {
	if l.next == len(l.items) {
		return nil
	}
	return &l.items[l.next]
}

func (l *list[T]) add(item T) {
	l.items = append(l.items[:l.next], item)
	l.next++
}

// end drops what was not written over, and the room of a much longer list: a page stays
// as it is for long after many processes have left.
func (l *list[T]) end() {
	l.items = l.items[:l.next]
	if cap(l.items) > 2*len(l.items) {
		l.items = slices.Clone(l.items)
		return
	}
	clear(l.items[l.next:cap(l.items)])
}

// blocks are items that stay where they are when there come to be more of them.
type blocks[T any] [][]T

const blockSize = 128

// at returns an item, which may be the next after those there are.
func (b *blocks[T]) at(i int) *T {
	if i/blockSize == len(*b) {
		*b = append(*b, make([]T, blockSize))
	}
	return &(*b)[i/blockSize][i%blockSize]
}

// end drops what is behind the first n items.
func (b *blocks[T]) end(n int) {
	needed := (n + blockSize - 1) / blockSize
	*b = slices.Delete(*b, needed, len(*b))
	if rest := n % blockSize; rest > 0 {
		clear((*b)[needed-1][rest:])
	}
}
