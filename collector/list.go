package collector

import "slices"

// list is written over from its start. Its items stay where they are, also when there come
// to be more of them, so that what points to them is right for as long as they are there.
type list[T any] struct {
	blocks [][]T
	len    int // how many items there are, behind next those of before
	next   int // where the next item goes
}

// blockLen is such that a block of series fills the memory it gets.
const blockLen = 240

func (l *list[T]) at(i int) *T { return &l.blocks[i/blockLen][i%blockLen] }

// old returns the item of before that stands where the next one goes, nil if there is none.
func (l *list[T]) old() *T {
	if l.next == l.len {
		return nil
	}
	return l.at(l.next)
}

// add returns the next item, to be written over, and forgets those behind it.
func (l *list[T]) add() *T {
	if l.next == len(l.blocks)*blockLen {
		l.blocks = append(l.blocks, make([]T, blockLen))
	}
	item := l.at(l.next)
	l.next++
	l.len = l.next
	return item
}

// end drops what is behind the next item, and the room for it: a page stays as it is for
// long after many processes have left.
func (l *list[T]) end() {
	l.len = l.next
	needed := (l.len + blockLen - 1) / blockLen
	l.blocks = slices.Delete(l.blocks, needed, len(l.blocks))
	if rest := l.len % blockLen; rest > 0 {
		clear(l.blocks[needed-1][rest:])
	}
}
