package sampler

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// GPUs of one idleKind have about the same idle power.
type idleKind struct {
	Model      string    `json:"model"`
	PowerLimit gpu.Watts `json:"power_limit_watts"`
	Driver     string    `json:"driver"` // version of the driver
}

func (k idleKind) compare(other idleKind) int {
	return cmp.Or(cmp.Compare(k.Model, other.Model), cmp.Compare(k.PowerLimit, other.PowerLimit), cmp.Compare(k.Driver, other.Driver))
}

// An idleRow is a row in the table of measured idle powers.
type idleRow struct {
	idleKind
	Power gpu.Watts `json:"idle_power_watts"`
}

// idlePowers contains the measured idle powers by kind. They are saved in the state directory, so they survive a
// reboot.
type idlePowers struct {
	// stored contains the rows of earlier exporters, oldest first. The rows never change, so the estimate for a GPU
	// depends only on measurements by earlier exporters.
	stored []idleRow
	// now contains the rows to save. saved contains the rows of the last successful save.
	now, saved []idleRow
	due        time.Duration // boot-clock time of the next update
}

const (
	// idleEvery is the delay of the first save of the table, and the interval between saves.
	idleEvery = 10 * time.Minute
	// maxIdleRows limits the table. The oldest measurements are dropped.
	maxIdleRows = 64
	// idleMoved is the minimum relative change of an idle power that causes a save.
	idleMoved = 0.01
)

// check rejects rows that no exporter can have written.
func (t *idlePowers) check() error {
	if len(t.stored) > maxIdleRows {
		return fmt.Errorf("the table contains %d rows, but the limit is %d", len(t.stored), maxIdleRows)
	}
	for _, row := range t.stored {
		if row.Model == "" || !(row.Power > 0) || math.IsInf(float64(row.Power), 0) || row.PowerLimit < 0 || row.PowerLimit > 0 && row.Power > row.PowerLimit {
			return fmt.Errorf("the idle power %v W is invalid for a %q with a power limit of %v W", row.Power, row.Model, row.PowerLimit)
		}
	}
	return nil
}

// idlePower returns 0 if no idle power of the kind is stored.
func (t *idlePowers) idlePower(k idleKind) gpu.Watts {
	if i := slices.IndexFunc(t.stored, func(r idleRow) bool { return r.idleKind == k }); i >= 0 {
		return t.stored[i].Power
	}
	return 0
}

// update returns nil if the table need not be saved now. It stores the median over the GPUs of each kind.
func (t *idlePowers) update(now time.Duration, gpus map[string]entry, drivers []gpu.Driver, books ledger.State) []idleRow {
	if t.due == 0 {
		t.due = now + idleEvery
	}
	if now < t.due {
		return nil
	}
	t.due = now + idleEvery
	measured := make(map[idleKind][]gpu.Watts)
	for uuid, b := range books.Books {
		if e := gpus[uuid]; e.Present && e.Model != "" && b.IdlePower > 0 {
			k := kindOf(e.Device, drivers)
			measured[k] = append(measured[k], b.IdlePower)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(measured), idleKind.compare) {
		powers := measured[k]
		slices.Sort(powers)
		t.now = slices.DeleteFunc(t.now, func(r idleRow) bool { return r.idleKind == k })
		t.now = append(t.now, idleRow{k, powers[(len(powers)-1)/2]})
	}
	t.now = t.now[max(len(t.now)-maxIdleRows, 0):]
	if !t.moved() {
		return nil
	}
	return slices.Clone(t.now)
}

func (t *idlePowers) moved() bool {
	byKind := func(a, b idleRow) int { return a.compare(b.idleKind) }
	return !slices.EqualFunc(slices.SortedFunc(slices.Values(t.now), byKind), slices.SortedFunc(slices.Values(t.saved), byKind), func(a, b idleRow) bool {
		return a.idleKind == b.idleKind && math.Abs(float64(a.Power-b.Power)) <= idleMoved*float64(b.Power)
	})
}

func kindOf(d gpu.Device, drivers []gpu.Driver) idleKind {
	k := idleKind{Model: d.Model, PowerLimit: d.MaxPower}
	for _, driver := range drivers {
		if driver.Vendor == d.Vendor {
			k.Driver = driver.Version
		}
	}
	return k
}

// restoreIdle ignores a table that cannot be read.
func (s *store) restoreIdle(table idlePowers, err error) {
	if err != nil {
		table.stored = nil
		if !errors.Is(err, fs.ErrNotExist) {
			s.cfg.Log.Warn("ignoring the idle powers of earlier exporters", "err", err)
		}
	}
	table.now, table.saved = slices.Clone(table.stored), table.stored
	s.idle = table
}
