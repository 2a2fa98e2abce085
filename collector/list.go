package collector

import "slices"

// Each rendering of a page is a pass that overwrites the items of a list from the start. The items of a list do not
// move when the list grows, so a pointer to an item remains valid while the item exists.
type list[T any] struct {
	blocks [][]T
	len    int // number of items; the items from position next on belong to the previous pass
	next   int // position of the next item
}

// blockLen is the number of items in a block. A block of 240 series fills a size class of Go's allocator, so no memory
// is wasted.
const blockLen = 240

func (l *list[T]) at(i int) *T { return &l.blocks[i/blockLen][i%blockLen] }

// old returns the item of the previous pass at the next position, or nil if there is no such item.
func (l *list[T]) old() *T {
	if l.next == l.len {
		return nil
	}
	return l.at(l.next)
}

// add returns the next item, which the caller must overwrite, and discards the items after it.
func (l *list[T]) add() *T {
	if l.next == len(l.blocks)*blockLen {
		l.blocks = append(l.blocks, make([]T, blockLen))
	}
	item := l.at(l.next)
	l.next++
	l.len = l.next
	return item
}

// end discards all items at the next position and later, and releases the memory of these items.
// Otherwise the memory would stay in use after many processes have ended.
func (l *list[T]) end() {
	l.len = l.next
	needed := (l.len + blockLen - 1) / blockLen
	l.blocks = slices.Delete(l.blocks, needed, len(l.blocks))
	if rest := l.len % blockLen; rest > 0 {
		clear(l.blocks[needed-1][rest:])
	}
}
