package archive

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// The samples of one cluster are late. Each of its hours must be refused, must be logged once, and must be archived as
// soon as its samples arrive. The other cluster must be archived in time.
func TestLate(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	simulate(t, func(w *world) {
		var arrived atomic.Bool
		w.api = foldtest.API{Store: w.samples, Hidden: func(labels map[string]string, at time.Time) bool {
			return !arrived.Load() && labels["cluster"] == "west" && at.After(w.begin.Add(4*time.Hour+20*time.Minute))
		}}
		sink, dir := w.folder("one")
		a, stop := w.start(nil, sink)
		w.until(7, 6)
		refused := func() float64 { return number(a.metrics.refused.WithLabelValues("west", "lagging")) }
		if got := refused(); got != 3 {
			w.Errorf("%v hours are refused, want 3", got)
		}
		if got := w.log.logged("hour refused"); got != 3 {
			w.Errorf("refusals are logged %d times, want 3:\n%s", got, w.log)
		}
		if got := number(a.metrics.refused.WithLabelValues("east", "lagging")); got != 0 {
			w.Errorf("%v hours of the other cluster are refused", got)
		}
		arrived.Store(true)
		w.until(7, 50)
		if got := refused(); got != 0 {
			w.Errorf("%v hours are refused after the samples arrived", got)
		}
		stop()
		for _, cluster := range []string{"east", "west"} {
			if diff := cmp.Diff(first(7), w.filed(dir, cluster)); diff != "" {
				w.Errorf("hours of %s (-want +filed):\n%s", cluster, diff)
			}
		}
	})
}

// The store loses its only cluster before the archive starts. The archive must refuse the hours, because the manifest
// contains the cluster.
func TestLostCluster(t *testing.T) {
	f := newFiling(t, life{machines: pool(2, 0, always)})
	from := "--from=" + noon.Format(time.RFC3339)
	check(t, f.once(66, "once", from))
	f.hidden = func(map[string]string, time.Time) bool { return true }
	if err := f.once(126, "once", from); !errors.Is(err, ErrIncomplete) {
		t.Errorf("error %v, want ErrIncomplete:\n%s", err, f.log.String())
	}
}

func TestNewStore(t *testing.T) {
	simulate(t, func(w *world) {
		w.api = foldtest.API{Store: w.samples, Hidden: func(labels map[string]string, _ time.Time) bool { return labels["cluster"] == "west" }}
		for _, args := range [][]string{nil, {"--cluster=east"}} {
			sink, dir := w.folder("one")
			w.start(append(args, "--from="+w.begin.Add(-40*time.Hour).Format(time.RFC3339)), sink)
			time.Sleep(time.Minute)
			synctest.Wait()
			w.stops[len(w.stops)-1]()
			if got := w.log.logged("refused"); got != 0 {
				w.Errorf("%s: %d hours are refused:\n%s", args, got, w.log)
			}
			s, err := files.Open(dir, []string{"csv"})
			check(w, err)
			spans, err := s.Clusters(w.Context(), w.begin.Add(-40*time.Hour))
			want := map[string]table.Span{"east": {First: w.begin, Last: w.begin.Add(4 * time.Hour)}}
			if diff := cmp.Diff(want, spans); diff != "" || err != nil {
				w.Errorf("%s: hours (-want +filed), error %v:\n%s", args, err, diff)
			}
			_ = s.Close()
		}
	})
}

func TestReplica(t *testing.T) {
	simulate(t, func(w *world) {
		sink, dir := w.folder("folder")
		_, stop := w.start(nil, sink)
		w.until(5, 31)
		second, stopSecond := w.start(nil, sink)
		w.until(7, 30)
		if got := number(second.metrics.filed.WithLabelValues("folder")); got != 0 {
			w.Errorf("the second replica files %v hours while the first runs", got)
		}
		if got := w.log.logged("another gpuledger-archive"); got != 1 {
			w.Errorf("the wait is logged %d times, want once:\n%s", got, w.log)
		}
		if got := labelled(second.metrics.behind); got != 0 {
			w.Errorf("the second replica exports %d series of missing hours, want none", got)
		}
		stop()
		w.until(9, 15)
		if got := labelled(second.metrics.behind); got != 1 {
			w.Errorf("after the end of the first, the second replica exports %d series of missing hours, want one", got)
		}
		stopSecond()
		if diff := cmp.Diff(first(9), w.filed(dir, "east")); diff != "" {
			w.Errorf("hours (-want +filed):\n%s", diff)
		}
	})
}
