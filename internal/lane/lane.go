// Package lane keeps calls that cannot be cancelled, and may never return, from
// holding up anybody else.
package lane

import "context"

// A Lane runs one piece of work at a time in a goroutine of its own. Work that
// is stuck in the driver keeps its lane busy, and nobody else. A lane is used by
// one goroutine; the zero lane is idle.
type Lane[T any] struct {
	answer chan T // nil while idle
	late   bool
}

// Run does one piece of work in a goroutine of its own, and returns its answer if it comes
// before ctx ends.
func Run[T any](ctx context.Context, work func() T) (v T, ok bool) {
	var l Lane[T]
	l.Begin(work)
	return l.Wait(ctx)
}

// Busy reports whether there is work whose answer was not taken yet.
func (l *Lane[T]) Busy() bool { return l.answer != nil }

// Late reports whether somebody waited in vain for the answer, which may have come
// since.
func (l *Lane[T]) Late() bool { return l.late }

// Begin starts work on an idle lane.
func (l *Lane[T]) Begin(work func() T) {
	answer := make(chan T, 1) // the goroutine ends even if nobody comes for it
	l.answer, l.late = answer, false
	go func() { answer <- work() }()
}

// Poll returns the answer if it is there.
func (l *Lane[T]) Poll() (v T, ok bool) {
	select {
	case v = <-l.answer:
		l.answer = nil
		return v, true
	default:
		return v, false
	}
}

// Wait returns the answer if it comes before ctx ends.
func (l *Lane[T]) Wait(ctx context.Context) (v T, ok bool) {
	if v, ok = l.Poll(); ok {
		return v, ok
	}
	select {
	case v = <-l.answer:
		l.answer = nil
		return v, true
	case <-ctx.Done():
		l.late = true
		return v, false
	}
}

// Take is Wait for a tick: an idle lane has nothing to give, and a lane that was
// late once is only looked at, so that it costs no later tick any time.
func (l *Lane[T]) Take(ctx context.Context) (v T, ok bool) {
	if !l.Busy() {
		return v, false
	}
	if l.late {
		return l.Poll()
	}
	return l.Wait(ctx)
}
