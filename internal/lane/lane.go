// Package lane isolates calls that cannot be cancelled and may never return.
package lane

import "context"

// A Lane runs one piece of work at a time in a separate goroutine. Work that hangs in the driver
// blocks only its own lane. Only one goroutine may use a lane. The zero lane is idle.
type Lane[T any] struct {
	answer chan T // nil while the lane is idle
	late   bool
}

// Run does work in a separate goroutine, and returns the result if it arrives before ctx ends.
func Run[T any](ctx context.Context, work func() T) (v T, ok bool) {
	var l Lane[T]
	l.Begin(work)
	return l.Wait(ctx)
}

// Busy reports whether work is in progress or its result was not taken yet.
func (l *Lane[T]) Busy() bool { return l.answer != nil }

// Late reports whether Wait timed out on the current work. The work may have ended since then.
func (l *Lane[T]) Late() bool { return l.late }

// Begin starts work on an idle lane.
func (l *Lane[T]) Begin(work func() T) {
	answer := make(chan T, 1) // buffered, so that the goroutine ends even if no caller takes the result
	l.answer, l.late = answer, false
	go func() { answer <- work() }()
}

// Poll returns the result if it is ready.
func (l *Lane[T]) Poll() (v T, ok bool) {
	select {
	case v = <-l.answer:
		l.answer = nil
		return v, true
	default:
		return v, false
	}
}

// Wait returns the result if it arrives before ctx ends.
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

// Take waits like Wait, but is meant for ticks. If the lane is idle, Take returns no result. If an earlier wait timed
// out, Take only polls the lane, so that a hung call does not delay later ticks.
func (l *Lane[T]) Take(ctx context.Context) (v T, ok bool) {
	if !l.Busy() {
		return v, false
	}
	if l.late {
		return l.Poll()
	}
	return l.Wait(ctx)
}
