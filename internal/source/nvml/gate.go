package nvml

import (
	"context"
	"sync"
)

// A gate guards all calls to the driver. It admits only calls of the open session, so that the driver is never called
// before it is initialised. It counts the calls in flight, so that the driver is never shut down during a call.
type gate struct {
	mu    sync.Mutex
	open  *session
	calls int
	idle  chan struct{} // closed and set to nil when the last call returns
}

func (g *gate) admit(d *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = d
}

// session returns nil if no session is open.
func (g *gate) session() *session {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// enter reports whether a call of session d may start. If it returns true, the caller must call leave after the call.
func (g *gate) enter(d *session) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d == nil || g.open != d {
		return false
	}
	g.calls++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
	if g.calls == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// shut rejects further calls. The returned channel is closed when all calls in flight have returned.
func (g *gate) shut() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = nil
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	if g.calls == 0 {
		close(g.idle)
		g.idle = nil
	}
	return idle
}

// drain shuts the gate and reports whether all calls in flight returned before ctx ended.
func (g *gate) drain(ctx context.Context) bool {
	idle := g.shut()
	select {
	case <-idle:
		return true
	default:
	}
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}
