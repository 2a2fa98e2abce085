package nvml

import "context"

// A lane runs one piece of work at a time in a goroutine of its own. Work that
// is stuck in the driver keeps its lane busy, and nobody else. A lane is used by
// one goroutine; the zero lane is idle.
type lane[T any] struct {
	answer chan T // nil while idle
	late   bool   // somebody waited in vain for the answer, which may have come since
}

func (l *lane[T]) busy() bool { return l.answer != nil }

// begin starts work on an idle lane.
func (l *lane[T]) begin(work func() T) {
	answer := make(chan T, 1) // the goroutine ends even if nobody comes for it
	l.answer, l.late = answer, false
	go func() { answer <- work() }()
}

// poll returns the answer if it is there.
func (l *lane[T]) poll() (v T, ok bool) {
	select {
	case v = <-l.answer:
		l.answer = nil
		return v, true
	default:
		return v, false
	}
}

// wait returns the answer if it comes before ctx ends.
func (l *lane[T]) wait(ctx context.Context) (v T, ok bool) {
	if v, ok = l.poll(); ok {
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

// take is wait for a tick: an idle lane has nothing to give, and a lane that was
// late once is only looked at, so that it costs no later tick any time.
func (l *lane[T]) take(ctx context.Context) (v T, ok bool) {
	if !l.busy() {
		return v, false
	}
	if l.late {
		return l.poll()
	}
	return l.wait(ctx)
}
