package sampler_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// TestRestart checks that the books continue.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	before := w.ticks(s, 5).GPUs[0].Book
	after := w.ticks(w.restarted(s), 2).GPUs[0].Book
	if after.Energy != before.Energy+200_000 || !after.Opened.Equal(before.Opened) {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
}

// TestTwoExporters checks that the second one shows the GPUs and charges nothing until the first
// one ends, and then continues its books.
func TestTwoExporters(t *testing.T) {
	w := newWorld(t)
	one, two := w.sampler(), w.sampler()
	w.xids = []gpu.DriverEvent{{UUID: first, Code: 31, At: w.instant().Wall}}
	w.ticks(one, 2)
	snap := w.ticks(two, 2)
	if st := stageOf(snap, stage.State); len(snap.GPUs) != 2 || snap.GPUs[0].Book != nil || st.Up || st.Failures != 2 {
		t.Errorf("the second exporter keeps a book: %+v, %+v", snap.GPUs[0].Book, st)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	snap = w.ticks(two, 2)
	if g := snap.GPUs[0]; g.Book == nil || g.Book.Energy == 0 || g.Events.Count != 1 || !stageOf(snap, stage.State).Up {
		t.Errorf("it does not take over: %+v", g)
	}
}

// TestUnwritable: without a state directory the exporter charges all the same.
func TestUnwritable(t *testing.T) {
	w := newWorld(t)
	w.write("state", "not a folder")
	snap := w.ticks(w.sampler(), 5)
	if st := stageOf(snap, stage.State); st.Up || st.Failures != 5 || snap.GPUs[0].Book.Energy != 200_000 {
		t.Errorf("book %+v, stage %+v", snap.GPUs[0].Book, st)
	}
}

// TestLateDirectory: a good file that cannot be opened at once is continued.
func TestLateDirectory(t *testing.T) {
	w := newWorld(t)
	s := w.sampler()
	before := w.ticks(s, 5).GPUs[0].Book.Energy
	s = w.restarted(s)
	boot := "proc/sys/kernel/random/boot_id"
	w.write(boot, "")
	if snap := w.ticks(s, 2); snap.GPUs[0].Book != nil {
		t.Errorf("began %+v without the file", snap.GPUs[0].Book)
	}
	w.write(boot, "boot-1\n")
	if got := w.ticks(s, 2).GPUs[0].Book.Energy; got <= before {
		t.Errorf("%d mJ, after %d mJ before the restart", got, before)
	}
}

// TestStateRemoved: if somebody removes the directory, it is made and taken again.
// If it is another exporter's by then, this one charges no more.
func TestStateRemoved(t *testing.T) {
	w := newWorld(t)
	one := w.sampler()
	before := w.ticks(one, 3).GPUs[0].Book.Energy
	remove := func() {
		if err := os.RemoveAll(filepath.Join(w.root, "state")); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	if snap := w.ticks(one, 3); snap.GPUs[0].Book.Energy <= before || !stageOf(snap, stage.State).Up {
		t.Errorf("book %+v, stage %+v", snap.GPUs[0].Book, stageOf(snap, stage.State))
	}
	remove()
	two := w.sampler()
	w.ticks(two, 2)
	if snap := w.ticks(one, 2); snap.GPUs[0].Book != nil || stageOf(snap, stage.State).Up {
		t.Errorf("two exporters charge: %+v", snap.GPUs[0].Book)
	}
	if snap := w.ticks(two, 1); snap.GPUs[0].Book == nil {
		t.Error("no exporter charges")
	}
}

// TestSaveBeforePublish: what a restart would not find is never shown. The state
// file is made into a folder that can be neither replaced nor removed.
func TestSaveBeforePublish(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	shown := w.ticks(s, 3).GPUs[0].Book.Energy
	file := filepath.Join(w.root, "state", "ledger.json")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	w.write("state/ledger.json/stuck", "")
	w.xids = []gpu.DriverEvent{{UUID: first, Code: 31, At: w.instant().Wall}}
	snap := w.ticks(s, 3)
	if g := snap.GPUs[0]; g.Book.Energy != shown || len(g.Book.Accounts) != 1 || g.Events.Count != 0 || stageOf(snap, stage.State).Up {
		t.Errorf("%d mJ and %d XIDs are shown, but %d mJ and none were saved", g.Book.Energy, g.Events.Count, shown)
	}
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	if g := w.ticks(s, 1).GPUs[0]; g.Book.Energy != shown+400_000 || g.Events.Count != 1 {
		t.Errorf("%d mJ and %d XIDs after the folder went, want %d and 1", g.Book.Energy, g.Events.Count, shown+400_000)
	}
}

// TestStaleFromStart: an exporter that could never save shows no book, nor the one it found
// with what came since: a restart would count that back.
func TestStaleFromStart(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.root, "state", "ledger.json")
	w.write("state/ledger.json/stuck", "")
	s := w.sampler()
	for range 3 {
		if g := w.ticks(s, 1).GPUs[0]; g.Book != nil {
			t.Errorf("%d mJ are shown, and none were saved", g.Book.Energy)
		}
	}
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	if g := w.ticks(s, 1).GPUs[0]; g.Book == nil || g.Book.Energy != 300_000 {
		t.Errorf("after the folder went: %+v, want 300000 mJ", g.Book)
	}
}

// TestOversizedState: a file with a record without end means clean books, and is counted.
func TestOversizedState(t *testing.T) {
	w := newWorld(t)
	w.write("state/ledger.json", `{"version":3,"boot_id":"boot-1"}`+"\n"+`{"uuid":"`+strings.Repeat("x", 1<<20)+`"}`+"\n"+`{"records":1}`)
	snap := w.ticks(w.sampler(), 3)
	if st := stageOf(snap, stage.State); snap.GPUs[0].Book.Energy != 200_000 || st.Failures != 1 || st.Oversized != 1 || !st.Up {
		t.Errorf("%d mJ, stage %+v; want clean books, one failure and up again", snap.GPUs[0].Book.Energy, st)
	}
}

// TestOldState checks that the books of an exporter that wrote version 2 continue.
func TestOldState(t *testing.T) {
	saved, err := os.ReadFile(filepath.Join("testdata", "state-v2.json"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.write("state/ledger.json", string(saved))
	w.now += 5 * time.Second
	w.runs(first, 42, train)
	w.gives(first, train)
	b := w.ticks(w.sampler(), 2).GPUs[0].Book
	if len(b.Accounts) != 1 || b.Accounts[0].Owner != train || b.Accounts[0].Energy[gpu.Exclusive] != 600_000 || b.Energy != 600_000 || b.Accounts[0].Processes[0].Energy.Sum() != 600_000 {
		t.Errorf("book %+v", b)
	}
}

// TestCorruptState: a file that cannot be continued means clean books.
func TestCorruptState(t *testing.T) {
	of := func(record string) string {
		return `{"version":3,"boot_id":"boot-1"}` + "\n" + record + "\n" + `{"records":1}`
	}
	const lost = `{"gpu":{"uuid":"GPU-5d2f9a60-0000-4000-8000-000000000003"}}`
	files := map[string]string{
		"garbage":       "{",
		"unbalanced":    of(`{"uuid":"` + first + `","book":{"energy":5}}`),
		"null":          of(`{"uuid":"` + first + `","book":null}`),
		"out of place":  of(`{"account":{"kind":"pod"}}`),
		"no record":     of(`[1]`),
		"unknown owner": of(`{"account":{"kind":"nobody"}}`),
		"version 1":     `{"version":1,"boot_id":"boot-1","data":{"gpus":{},"ledger":{"books":{}}}}`,
		"a wrong pod":   `{"version":2,"boot_id":"boot-1"}` + "\n" + `{"account":{"namespace":5}}` + "\n" + `{"records":1}`,
		"a line is cut": strings.TrimSuffix(of(lost+"\n"+lost), `{"records":1}`),
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write("state/ledger.json", file)
			snap := w.ticks(w.sampler(), 3)
			if len(snap.GPUs) != 2 {
				t.Errorf("%d GPUs, want 2", len(snap.GPUs))
			}
			if got := snap.GPUs[0].Book.Energy; got != 200_000 {
				t.Errorf("%d mJ, want 200000", got)
			}
			if st := stageOf(snap, stage.State); st.Failures != 1 || !st.Up {
				t.Errorf("stage %+v, want one failure and up again", st)
			}
		})
	}
}
