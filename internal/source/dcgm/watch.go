package dcgm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// A watch makes the engine periodically read fields of some entities and keep their values. It needs one of the
// engine's 64 groups and one of its 64 field groups, which all clients share.
type watch struct {
	name   string // part of the names of the groups in the engine
	of     []entity
	fields []field
	every  time.Duration
	keep   time.Duration

	group godcgm.GroupHandle
	set   godcgm.FieldHandle
	// held contains the calls that remove the watch's objects from the engine. The calls are made in reverse order.
	held []holding
}

type holding struct {
	name string
	back func() error
}

const unwatchCall = "dcgmUnwatchFields"

// shortest is the shortest interval of a watch. A shorter interval is useless, because NVML's
// counter changes only every 100 ms.
const shortest = 100 * time.Millisecond

// full compares texts, because for DCGM_ST_MAX_LIMIT the binding returns only the library's text.
func full(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Max limit reached")
}

// When begin returns, the engine has read the first values. If begin fails, it leaves no objects in the engine.
func (w *watch) begin(e *engine) error {
	if err := w.establish(e); err != nil {
		_ = w.end() // fails for the same reason
		return fmt.Errorf("watch %s: %w", w.name, err)
	}
	return nil
}

func (w *watch) establish(e *engine) error {
	name := fmt.Sprintf("gpuledger-%s-%s", w.name, rand.Text()) // another gpuledger may use the same engine
	err := e.do("dcgmGroupCreate", func() (err error) {
		w.group, err = godcgm.CreateGroup(name)
		return err
	})
	if err != nil {
		return err
	}
	w.holds(e, "dcgmGroupDestroy", func() error { return godcgm.DestroyGroup(w.group) })
	for _, x := range w.of {
		err := e.do("dcgmGroupAddEntity", func() error { return godcgm.AddEntityToGroup(w.group, x.EntityGroupId, x.EntityId) })
		if err != nil {
			return err
		}
	}
	err = e.do("dcgmFieldGroupCreate", func() (err error) {
		w.set, err = godcgm.FieldGroupCreate(name, w.fields)
		return err
	})
	if err != nil {
		return err
	}
	w.holds(e, "dcgmFieldGroupDestroy", func() error { return godcgm.FieldGroupDestroy(w.set) })
	// The call is recorded before the watch is created, because a failed watch may be partly active.
	w.holds(e, unwatchCall, func() error { return godcgm.UnwatchFields(w.set, w.group) })
	return e.do("dcgmWatchFields", func() error {
		return godcgm.WatchFieldsWithGroupEx(w.set, w.group, max(w.every, shortest).Microseconds(), w.keep.Seconds(), 0)
	})
}

func (w *watch) holds(e *engine, name string, call func() error) {
	w.held = append(w.held, holding{name, func() error { return e.do(name, call) }})
}

// If the connection was lost, the engine has already removed the watch, so end ignores the error.
func (w *watch) end() (err error) {
	for len(w.held) > 0 {
		last := len(w.held) - 1
		if e := w.held[last].back(); e != nil && !gone(e) {
			err = errors.Join(err, e)
		}
		w.held = w.held[:last]
	}
	return err
}

func (w *watch) covers(of []entity) bool {
	return !slices.ContainsFunc(of, func(x entity) bool { return !slices.Contains(w.of, x) })
}

// endGroups does not unwatch the fields, because another watch now reads them.
func (w *watch) endGroups() error {
	w.held = slices.DeleteFunc(w.held, func(h holding) bool { return h.name == unwatchCall })
	return w.end()
}

// Names of watches that the engine may reject.
const (
	activityWatch  = "activity"
	pageWatch      = "page"
	instancesWatch = "page-instances"
)

// retention returns the time for which the engine keeps values that it reads at the given interval. It is longer than
// two intervals, because one update may be late.
func retention(every time.Duration) time.Duration { return max(10*time.Second, 3*every) }

// replace returns nil if the new watch is empty. After an error, neither the old nor the new watch exists. Fields that
// are in both watches are measured without interruption, unless an entity is dropped. old may be nil.
func (d *session) replace(old, w *watch) (*watch, error) {
	ended := func(err error) {
		if err != nil {
			d.cfg.Log.Debug("remove watch", "fields", old.name, "err", err)
		}
	}
	if old != nil && slices.Equal(old.of, w.of) && slices.Equal(old.fields, w.fields) {
		return old, nil
	}
	if old != nil {
		d.watches = slices.DeleteFunc(d.watches, func(o *watch) bool { return o == old })
		if !w.covers(old.of) {
			ended(old.end())
		}
	}
	if len(w.of) == 0 || len(w.fields) == 0 {
		return nil, nil
	}
	err := w.begin(d.engine)
	switch {
	case err == nil && old != nil:
		ended(old.endGroups())
	case old != nil:
		ended(old.end())
	}
	if err != nil {
		return nil, err
	}
	d.watches = append(d.watches, w)
	return w, nil
}

// latest omits a field unless a watch reads it for all the given entities. The engine logs a line for each value that
// is not watched.
func (d *session) latest(of []entity, fields []field) (values, error) {
	return d.engine.latest(of, slices.DeleteFunc(slices.Clone(fields), func(f field) bool {
		return !slices.ContainsFunc(d.watches, func(w *watch) bool { return slices.Contains(w.fields, f) && w.covers(of) })
	}))
}

// note logs a failed watch once. A nil error means that the watch succeeded.
func (d *session) note(name string, err error) {
	if err == nil {
		delete(d.unserved, name)
		return
	}
	if !d.unserved[name] {
		d.cfg.Log.Warn("omitting fields that the host engine does not serve", "fields", name, "err", err)
	}
	d.unserved[name] = true
}

// rewatch retries failed watches, because other clients may have released groups or the profiling counters.
func (d *session) rewatch() {
	page := d.unserved[pageWatch] || d.unserved[instancesWatch]
	if d.unserved[activityWatch] {
		d.watchInstances()
		page = page || d.instances.watch != nil // the new watch must include the activity
	}
	if page {
		d.watchPage()
	}
}

func (d *session) unwatch() (err error) {
	for _, w := range d.watches {
		err = errors.Join(err, w.end())
	}
	d.watches = nil
	return err
}
