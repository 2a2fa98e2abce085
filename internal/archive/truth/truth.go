// Package truth reads the true use of simulated GPUs. It computes the ranges in which the energy and the times in an
// archive must be.
package truth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"time"
)

// An exporter has these delays by its design (see docs/energy.md). settled is the maximum age of a scraped value: the
// value includes all energy that was used earlier. After the start or end of a container, energy may be charged to the
// wrong owners for up to noticed, which is a poll of the kubelet and two ticks.
const (
	settled = 10 * time.Second
	noticed = 12 * time.Second
)

// Period is the period of a comparison. Scrape is the interval of the scrapes.
type Period struct {
	From, Until time.Time
	Scrape      time.Duration
}

// lag returns the maximum delay between the use of energy and the scrape that includes this energy.
func (p Period) lag() time.Duration { return p.Scrape + settled }

// Owner is a pod or a unit. Scope is the namespace of a pod or the manager of a unit. A unit has no UID.
type Owner struct{ Kind, Scope, Name, UID string }

// These are the kinds of owners.
const (
	Pod  = "pod"
	Unit = "unit"
)

// Range contains a true energy or time. The value in the archive must be between Least and Most.
type Range struct{ True, Least, Most int64 }

// Widen widens the range in both directions.
func (r Range) Widen(by int64) Range { return Range{r.True, max(0, r.Least-by), r.Most + by} }

// Contains reports whether a value is within the range.
func (r Range) Contains(n int64) bool { return r.Least <= n && n <= r.Most }

// GPU is the true use of a GPU in a period. Energy is in mJ.
type GPU struct {
	Energy Range
	Owners map[Owner]Use
}

// Use is the true use of a GPU by an owner. Energy is in mJ. Held is the time in ms for which the owner held the GPU.
type Use struct{ Energy, Held Range }

type row struct {
	Time int64 `json:"time_unix_ns"`
	GPUs []struct {
		UUID       string `json:"uuid"`
		Energy     int64  `json:"energy_mj"`
		Peak       int64  `json:"peak_mw"`
		Containers []struct {
			Kind   string `json:"kind"`
			Scope  string `json:"scope"`
			Name   string `json:"name"`
			UID    string `json:"uid"`
			Part   string `json:"part"`
			Energy int64  `json:"energy_mj"`
			Held   int64  `json:"held_ms"`
		} `json:"containers"`
	} `json:"gpus"`
}

// account is a container or unit on a GPU. An account without an owner is the GPU itself.
type account struct {
	uuid string
	Owner
	part string
}

// amounts contains energy and time since the start of the simulation.
type amounts struct {
	energy, held int64 // mJ and ms
	grows        bool  // the energy increased in the last row
}

type state map[account]amounts

// moment contains the states before and after a time. before is the last state at or before this time. after is the
// first state at or after it.
type moment struct {
	time          time.Time
	before, after state
}

type history struct {
	last, interval time.Duration // last is the time of the last row, since the epoch
	now            state
	listed         state // values in the last row
	peak           map[string]int64
}

// Read returns the use of each GPU in a file, by UUID.
func Read(path string, p Period) (map[string]*GPU, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found, err := read(f, p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return found, nil
}

func read(in io.Reader, p Period) (map[string]*GPU, error) {
	h := &history{now: make(state), listed: make(state), peak: make(map[string]int64)}
	var moments []moment
	for dec := json.NewDecoder(in); ; {
		var r row
		err := dec.Decode(&r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the last row may be incomplete
			break
		}
		if err != nil {
			return nil, err
		}
		at := time.Duration(r.Time)
		if moments == nil {
			if moments, err = p.moments(r); err != nil {
				return nil, err
			}
		} else if err := h.follows(at); err != nil {
			return nil, err
		}
		due := h.pass(moments, at)
		h.add(r)
		for _, i := range due {
			moments[i].after = maps.Clone(h.now)
			if moments[i].before == nil {
				moments[i].before = moments[i].after
			}
		}
	}
	if moments == nil {
		return nil, errors.New("has no rows")
	}
	if last := moments[until]; last.after == nil {
		return nil, fmt.Errorf("ends at %s: select an earlier period with --to", stamp(h.last))
	}
	return h.gpus(moments), nil
}

// These are the indexes of the times from the method moments.
const (
	fromEarly = iota // earliest end of the use that the opening scrape includes
	from
	fromLate   // latest end of the use that the opening scrape includes
	untilEarly // earliest end of the use that the closing scrape includes
	until
)

// moments returns the times at which the state is needed for a period. first is the first row of the file. If the file
// begins in the period, its first scrape may be late, and its first row must contain no energy.
func (p Period) moments(first row) ([]moment, error) {
	late, begin := p.From, time.Unix(0, first.Time)
	if begin.After(p.From.Add(-p.lag())) {
		for _, g := range first.GPUs {
			if g.Energy != 0 {
				return nil, fmt.Errorf("begins at %s: select a later period with --from, or prepend the file that ends at this time", stamp(time.Duration(first.Time)))
			}
		}
		if late = p.From.Add(p.lag()); begin.After(p.From) {
			late = begin.Add(p.lag())
		}
	}
	return []moment{{time: p.From.Add(-p.lag())}, {time: p.From}, {time: late}, {time: p.Until.Add(-p.lag())}, {time: p.Until}}, nil
}

// follows checks that no row is missing before the row at the given time.
func (h *history) follows(at time.Duration) error {
	gap := at - h.last
	if h.interval == 0 {
		h.interval = gap
	}
	if gap <= 0 || gap > h.interval {
		return fmt.Errorf("has no row between %s and %s: its interval is %v", stamp(h.last), stamp(at), h.interval)
	}
	return nil
}

// pass saves the present state in each moment that is before the next row. It returns the indexes of the moments that
// also need the state after this row.
func (h *history) pass(moments []moment, at time.Duration) (due []int) {
	for i := range moments {
		m := &moments[i]
		if m.after != nil || time.Duration(m.time.UnixNano()) > at {
			continue
		}
		if time.Duration(m.time.UnixNano()) < at {
			m.before = maps.Clone(h.now)
		}
		due = append(due, i)
	}
	h.last = at
	return due
}

// If a removed container is in a row again, its values start at 0.
func (h *history) add(r row) {
	listed := make(state)
	for _, g := range r.GPUs {
		listed[account{uuid: g.UUID}] = amounts{energy: g.Energy}
		h.peak[g.UUID] = max(h.peak[g.UUID], g.Peak)
		for _, c := range g.Containers {
			owner := Owner{c.Kind, c.Scope, c.Name, c.UID}
			if c.Kind == Unit {
				owner.UID = ""
			}
			listed[account{g.UUID, owner, c.Part}] = amounts{energy: c.Energy, held: c.Held}
		}
	}
	for key, was := range h.now {
		was.grows = false
		h.now[key] = was
	}
	for key, is := range listed {
		was, sum := h.listed[key], h.now[key]
		if is.energy < was.energy {
			was = amounts{}
		}
		h.now[key] = amounts{sum.energy + is.energy - was.energy, sum.held + is.held - was.held, is.energy > was.energy}
	}
	h.listed = listed
}

func (h *history) gpus(m []moment) map[string]*GPU {
	found := make(map[string]*GPU)
	of := func(uuid string) *GPU {
		if found[uuid] == nil {
			found[uuid] = &GPU{Owners: make(map[Owner]Use)}
		}
		return found[uuid]
	}
	for key, end := range m[until].after {
		energy := between(m, func(s state) int64 { return s[key].energy })
		if key.Owner == (Owner{}) {
			of(key.uuid).Energy = energy
			continue
		}
		if energy.Most == 0 {
			continue // the use ended before the period
		}
		changes := int64(0)
		if m[fromEarly].before[key].energy == 0 {
			changes++ // the container began in the period
		}
		if !end.grows {
			changes++ // the container ended in the period
		}
		use := of(key.uuid).Owners[key.Owner]
		use.Energy = use.Energy.plus(energy.Widen(changes * h.peak[key.uuid] * int64(noticed/time.Second)))
		use.Held = use.Held.plus(between(m, func(s state) int64 { return s[key].held }).Widen(changes * noticed.Milliseconds()))
		of(key.uuid).Owners[key.Owner] = use
	}
	return found
}

func (r Range) plus(o Range) Range { return Range{r.True + o.True, r.Least + o.Least, r.Most + o.Most} }

func between(m []moment, of func(state) int64) Range {
	return Range{
		True:  of(m[until].before) - of(m[from].before),
		Least: max(0, of(m[untilEarly].before)-of(m[fromLate].after)),
		Most:  of(m[until].after) - of(m[fromEarly].before),
	}
}

func stamp(at time.Duration) string { return time.Unix(0, int64(at)).UTC().Format(time.RFC3339) }
