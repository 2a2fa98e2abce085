package sampler_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

func TestRestart(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	s := w.sampler()
	before := w.ticks(s, 5).GPUs[0].Book
	after := w.ticks(w.restarted(s), 2).GPUs[0].Book
	if after.Energy != before.Energy+200_000 || !after.Opened.Equal(before.Opened) {
		t.Errorf("book before the restart %+v\nafter the restart %+v", before, after)
	}
}

// Until the first exporter ends, a second exporter must publish the GPUs but charge nothing. Then it must continue the
// books of the first exporter. An error that the driver reports to both exporters must count once.
func TestTwoExporters(t *testing.T) {
	w := newWorld(t)
	one, two := w.sampler(), w.sampler()
	xids := []gpu.DriverEvent{{UUID: first, Code: 31, At: w.instant().Wall}}
	w.xids = xids
	w.ticks(one, 2)
	w.xids = xids
	snap := w.ticks(two, 2)
	if st := stageOf(snap, stage.State); len(snap.GPUs) != 2 || snap.GPUs[0].Book != nil || st.Up || st.Failures != 2 {
		t.Errorf("second exporter: book %+v, stage %+v; want no book and the stage down", snap.GPUs[0].Book, st)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	snap = w.ticks(two, 2)
	if g := snap.GPUs[0]; g.Book == nil || g.Book.Energy == 0 || g.Events.Count != 1 || !stageOf(snap, stage.State).Up {
		t.Errorf("GPU after the takeover: %+v, want the first exporter's book", g)
	}
}

// The exporter must charge energy even without a state directory.
func TestUnwritable(t *testing.T) {
	w := newWorld(t)
	w.write("state", "not a folder")
	snap := w.ticks(w.sampler(), 5)
	if st := stageOf(snap, stage.State); st.Up || st.Failures != 5 || snap.GPUs[0].Book.Energy != 200_000 {
		t.Errorf("book %+v, stage %+v", snap.GPUs[0].Book, st)
	}
}

// Books and errors must continue if the state file can be opened only after some ticks. Until then they must not be
// published, because their counters would have wrong created timestamps.
func TestLateDirectory(t *testing.T) {
	tests := []struct {
		name        string
		hide, show  func(w *world) error
		hiddenTicks int
	}{
		{"the boot is unknown", renames("proc/sys", "proc/none"), renames("proc/none", "proc/sys"), 20},
		{"the directory cannot be opened", blocks("state/lock"), unblocks("state/lock"), 2},
		{"the directory is read-only", remounts(unix.MS_RDONLY), remounts(0), 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			if err := w.mountState(); err != nil {
				t.Skipf("the test needs a file system that becomes read-only, which only root can mount: %v", err)
			}
			for i := range w.devices {
				w.devices[i].ReportsEvents = true
			}
			s, began := w.sampler(), w.instant().Wall
			w.xids = []gpu.DriverEvent{{UUID: first, Code: 31, At: began}}
			before := w.ticks(s, 5).GPUs[0].Book.Energy
			s = w.restarted(s)
			if err := tt.hide(w); err != nil {
				t.Fatal(err)
			}
			for range tt.hiddenTicks {
				if g := w.ticks(s, 1).GPUs[0]; g.Book != nil || g.ReportsEvents || g.Events.Count != 0 {
					t.Fatalf("book %+v and errors %+v without the state file, want none", g.Book, g.Events)
				}
			}
			if err := tt.show(w); err != nil {
				t.Fatal(err)
			}
			g := w.ticks(s, 2).GPUs[0]
			if g.Book.Energy <= before || !g.Book.Opened.Equal(began) {
				t.Errorf("after the restart: %d mJ since %v, want more than %d mJ since %v", g.Book.Energy, g.Book.Opened, before, began)
			}
			if g.Events.Count != 1 || !g.Events.Since.Equal(began) || !g.ReportsEvents {
				t.Errorf("errors %+v after the restart, want one since %v", g.Events, began)
			}
		})
	}
}

// If the state directory was removed, the exporter must create and lock it again. If another exporter locks the new
// directory first, the exporter must stop charging.
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
		t.Errorf("book of the first exporter: %+v, want none while the second charges", snap.GPUs[0].Book)
	}
	if snap := w.ticks(two, 1); snap.GPUs[0].Book == nil {
		t.Error("second exporter has no book")
	}
}

// A snapshot must never contain values that are not saved. Saves fail in this test because a directory blocks the path
// of the state file.
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
		t.Errorf("snapshot contains %d mJ and %d XIDs, want the saved %d mJ and 0 XIDs", g.Book.Energy, g.Events.Count, shown)
	}
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	if g := w.ticks(s, 1).GPUs[0]; g.Book.Energy != shown+400_000 || g.Events.Count != 1 {
		t.Errorf("%d mJ and %d XIDs after the folder was removed, want %d and 1", g.Book.Energy, g.Events.Count, shown+400_000)
	}
}

// An exporter that has never saved must not publish a book, because its counters would decrease after a restart.
func TestStaleFromStart(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.root, "state", "ledger.json")
	w.write("state/ledger.json/stuck", "")
	s := w.sampler()
	for range 3 {
		if g := w.ticks(s, 1).GPUs[0]; g.Book != nil {
			t.Errorf("snapshot contains a book with %d mJ, want no book before the first save", g.Book.Energy)
		}
	}
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	if g := w.ticks(s, 1).GPUs[0]; g.Book == nil || g.Book.Energy != 300_000 {
		t.Errorf("book after the folder was removed: %+v, want 300000 mJ", g.Book)
	}
}

// A state file with an oversized record must count as oversized, and the exporter must open new books.
func TestOversizedState(t *testing.T) {
	w := newWorld(t)
	w.write("state/ledger.json", `{"version":3,"boot_id":"boot-1"}`+"\n"+`{"uuid":"`+strings.Repeat("x", 1<<20)+`"}`+"\n"+`{"records":1}`)
	snap := w.ticks(w.sampler(), 3)
	if st := stageOf(snap, stage.State); snap.GPUs[0].Book.Energy != 200_000 || st.Failures != 1 || st.Oversized != 1 || !st.Up {
		t.Errorf("energy %d mJ, stage %+v; want 200000 mJ, one failure, one oversized record and up", snap.GPUs[0].Book.Energy, st)
	}
}

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
		t.Errorf("book %+v, want one account with 600000 mJ", b)
	}
}

// If the state file is corrupt, the exporter must open new books.
func TestCorruptState(t *testing.T) {
	of := func(record string) string {
		return `{"version":3,"boot_id":"boot-1"}` + "\n" + record + "\n" + `{"records":1}`
	}
	const lost = `{"gpu":{"uuid":"GPU-5d2f9a60-0000-4000-8000-000000000003"}}`
	files := map[string]string{
		"garbage":                   "{",
		"unbalanced":                of(`{"uuid":"` + first + `","book":{"energy":5}}`),
		"null":                      of(`{"uuid":"` + first + `","book":null}`),
		"record in the wrong place": of(`{"account":{"kind":"pod"}}`),
		"no record":                 of(`[1]`),
		"unknown owner":             of(`{"account":{"kind":"nobody"}}`),
		"version 1":                 `{"version":1,"boot_id":"boot-1","data":{"gpus":{},"ledger":{"books":{}}}}`,
		"a wrong pod":               `{"version":2,"boot_id":"boot-1"}` + "\n" + `{"account":{"namespace":5}}` + "\n" + `{"records":1}`,
		"truncated line":            strings.TrimSuffix(of(lost+"\n"+lost), `{"records":1}`),
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
				t.Errorf("energy %d mJ, want 200000", got)
			}
			if st := stageOf(snap, stage.State); st.Failures != 1 || !st.Up {
				t.Errorf("stage %+v, want one failure and up", st)
			}
		})
	}
}

func renames(from, to string) func(*world) error {
	return func(w *world) error { return os.Rename(filepath.Join(w.root, from), filepath.Join(w.root, to)) }
}

// A folder blocks a file even for root.
func blocks(name string) func(*world) error {
	return func(w *world) error {
		path := filepath.Join(w.root, name)
		return errors.Join(os.Remove(path), os.Mkdir(path, 0o755))
	}
}

func unblocks(name string) func(*world) error {
	return func(w *world) error { return os.Remove(filepath.Join(w.root, name)) }
}

func (w *world) mountState() error {
	path := filepath.Join(w.root, "state")
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("state", path, "tmpfs", 0, "size=1m,mode=755"); err != nil {
		return err
	}
	w.t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	return nil
}

func remounts(flags uintptr) func(*world) error {
	return func(w *world) error {
		return unix.Mount("state", filepath.Join(w.root, "state"), "tmpfs", unix.MS_REMOUNT|flags, "size=1m")
	}
}
