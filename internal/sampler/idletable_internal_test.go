package sampler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

func measured(gpus map[string]entry, books ledger.State, model string, power gpu.Watts) {
	uuid := fmt.Sprintf("GPU-%d", len(gpus))
	gpus[uuid] = entry{Present: true, Device: gpu.Device{UUID: uuid, Model: model, MaxPower: 700}}
	books.Books[uuid] = &ledger.BookState{Book: gpu.Book{IdlePower: power}}
}

// TestIdleTable checks when the table is saved and which medians it contains. The table must not change the estimates
// of the running exporter.
func TestIdleTable(t *testing.T) {
	a, b := idleKind{Model: "A", PowerLimit: 700}, idleKind{Model: "B", PowerLimit: 700}
	table := idlePowers{stored: []idleRow{{a, 50}}, now: []idleRow{{a, 50}}, saved: []idleRow{{a, 50}}}
	gpus, books := make(map[string]entry), ledger.State{Books: make(map[string]*ledger.BookState)}
	for _, power := range []gpu.Watts{60, 90, 61} {
		measured(gpus, books, "A", power)
	}
	measured(gpus, books, "B", 30)
	at := time.Hour
	save := func(after time.Duration, want []idleRow, when string) {
		t.Helper()
		at += after
		got := table.update(at, gpus, nil, books)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(idleRow{})); diff != "" {
			t.Errorf("%s: table (-want +got):\n%s", when, diff)
		}
		if got != nil {
			table.saved = got
		}
		if table.idlePower(a) != 50 || table.idlePower(b) != 0 {
			t.Errorf("%s: the estimates are %v and %v W, want 50 and 0", when, table.idlePower(a), table.idlePower(b))
		}
	}
	save(0, nil, "at the start")
	save(10*time.Minute-1, nil, "just before ten minutes")
	save(1, []idleRow{{a, 61}, {b, 30}}, "after ten minutes")
	books.Books["GPU-3"] = &ledger.BookState{Book: gpu.Book{IdlePower: 30.2}}
	save(10*time.Minute, nil, "after a change of less than a hundredth")
	books.Books["GPU-3"] = &ledger.BookState{Book: gpu.Book{IdlePower: 31}}
	save(9*time.Minute, nil, "too early")
	save(time.Minute, []idleRow{{a, 61}, {b, 31}}, "after a change")
}

// The table keeps the kinds that were measured most recently.
func TestIdleTableBounds(t *testing.T) {
	var table idlePowers
	for i := range 70 {
		gpus, books := make(map[string]entry), ledger.State{Books: make(map[string]*ledger.BookState)}
		measured(gpus, books, fmt.Sprintf("M%02d", i), 60)
		table.update(time.Duration(i)*time.Hour+1, gpus, nil, books)
	}
	table.stored = table.now
	if err := table.check(); err != nil {
		t.Error(err)
	}
	if n := len(table.now); n != maxIdleRows || table.now[n-1].Model != "M69" {
		t.Errorf("%d rows, the last one is %q; want %d, M69", n, table.now[n-1].Model, maxIdleRows)
	}
}
