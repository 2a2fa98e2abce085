package sampler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// During a save that hangs, the sampler must update gauges. It must not update books, because it publishes only saved
// books. After the save, no energy may be missing.
func TestSaveHangs(t *testing.T) {
	for name, outcome := range map[string]error{"the save succeeds": nil, "the save fails": errors.New("input/output error")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				s := w.sampler()
				shown := w.ticks(s, 3).GPUs[0].Book.Energy
				release := make(chan struct{})
				s.HoldSaving(release, outcome)
				w.xids = []gpu.DriverEvent{{UUID: first, Code: 31, At: w.instant().Wall}}
				began := time.Now()
				snap := w.ticks(s, 5)
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("five ticks took %v, want 3 s at most", took)
				}
				if g := snap.GPUs[0]; g.Book.Energy != shown || g.Events.Count != 0 || !g.LastReading.After(w.instant().Wall.Add(-2*time.Second)) {
					t.Errorf("snapshot contains %d mJ and %d XIDs, want the saved %d mJ and 0 XIDs; last reading %v", g.Book.Energy, g.Events.Count, shown, g.LastReading)
				}
				if st := stageOf(snap, stage.State); st.Up || st.Err == "" {
					t.Errorf("stage %+v, want down with a reason", st)
				}
				close(release)
				synctest.Wait()
				snap = w.ticks(s, 1)
				if g := snap.GPUs[0]; g.Book.Energy != shown+600_000 || g.Events.Count != 1 || !stageOf(snap, stage.State).Up {
					t.Errorf("%d mJ and %d XIDs after the hang, want %d and 1", g.Book.Energy, g.Events.Count, shown+600_000)
				}
				if got := w.ticks(w.restarted(s), 1).GPUs[0].Book.Energy; got != shown+700_000 {
					t.Errorf("%d mJ after a restart, want %d", got, shown+700_000)
				}
			})
		})
	}
}

// Until the state file of the previous exporter is read, the sampler must not publish books and errors, because the
// values in the file would count twice. It must publish GPUs, because probes and gauges need them. An error during this
// time must count once the file has been read.
func TestOpeningHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.sampler()
		w.xids = []gpu.DriverEvent{{UUID: first, Code: 31, At: w.instant().Wall}}
		before := w.ticks(s, 3).GPUs[0].Book.Energy
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for i := range w.devices {
			w.devices[i].ReportsEvents = true
		}
		s = w.sampler()
		release := make(chan struct{})
		s.HoldOpening(release)
		w.xids = []gpu.DriverEvent{{UUID: first, Code: 79, At: w.instant().Wall}}
		for range 5 {
			snap := w.ticks(s, 1)
			if g := snap.GPUs[0]; len(snap.GPUs) != 2 || g.Book != nil || g.ReportsEvents || stageOf(snap, stage.State).Up {
				t.Fatalf("book %+v, XIDs %+v, XID events reported: %v, stage %+v; want no book and no XIDs yet", g.Book, g.Events, g.ReportsEvents, stageOf(snap, stage.State))
			}
		}
		close(release)
		synctest.Wait()
		if g := w.ticks(s, 1).GPUs[0]; g.Book == nil || g.Book.Energy != before+600_000 || g.Events.ByCode[31] != 1 || g.Events.ByCode[79] != 1 || !g.ReportsEvents {
			t.Errorf("GPU after the hang: %+v, want %d mJ and two XIDs", g, before+600_000)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// If the state file is read late, the silent time of a GPU that the driver lists must continue, unless there was a
// reading.
func TestSilentBeforeOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.sampler()
		last := w.ticks(s, 1).GPUs[1].LastReading
		w.hung[first], w.hung[second] = true, true
		w.ticks(s, 100)
		s = w.restarted(s)
		release := make(chan struct{})
		s.HoldOpening(release)
		w.ticks(s, 3)
		w.hung[first] = false
		w.ticks(s, 3)
		close(release)
		synctest.Wait()
		w.hung[first] = true
		gpus := w.ticks(s, 1).GPUs
		if gpus[0].Silent != time.Second || gpus[1].Silent != 106*time.Second || !gpus[1].LastReading.Equal(last) {
			t.Errorf("the GPUs are silent for %v and %v, want 1s and 106s; last reading %v, want %v", gpus[0].Silent, gpus[1].Silent, gpus[1].LastReading, last)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Close and a tick must not wait for a hung file system. A tick must end when its context ends.
func TestCloseWhileHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.sampler()
		at := w.ticks(s, 2).At
		release := make(chan struct{})
		s.HoldSaving(release, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		s.Tick(ctx)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("tick and Close took %v, want at most 500ms", took)
		}
		if s.Latest().At != at {
			t.Error("snapshot contains a tick that was not saved")
		}
		close(release)
		synctest.Wait()
	})
}
