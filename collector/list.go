package collector

import "slices"

// list is overwritten from its start. Its items never move, even if the list grows, so a pointer to
// an item remains valid while the item exists.
type list[T any] struct {
	blocks [][]T
	len    int // number of items, including those of the previous pass behind next
	next   int // position of the next item
}

// blockLen is chosen so that a block of series fills a size class of Go's allocator.
const blockLen = 240

func (l *list[T]) at(i int) *T { return &l.blocks[i/blockLen][i%blockLen] }

// old returns the item of the previous pass at the next position, or nil.
func (l *list[T]) old() *T {
	if l.next == l.len {
		return nil
	}
	return l.at(l.next)
}

// add returns the next item, to be overwritten, and discards the items behind it.
func (l *list[T]) add() *T {
	if l.next == len(l.blocks)*blockLen {
		l.blocks = append(l.blocks, make([]T, blockLen))
	}
	item := l.at(l.next)
	l.next++
	l.len = l.next
	return item
}

// end discards the items behind the next one and releases their memory, which matters after
// many processes have ended.
func (l *list[T]) end() {
	l.len = l.next
	needed := (l.len + blockLen - 1) / blockLen
	l.blocks = slices.Delete(l.blocks, needed, len(l.blocks))
	if rest := l.len % blockLen; rest > 0 {
		clear(l.blocks[needed-1][rest:])
	}
}
