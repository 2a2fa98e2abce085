package archive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/serve"
)

// The archive must fill each sink with the missing hours, and then write each new hour some minutes after its end. It
// must stop as soon as its context ends.
func TestRun(t *testing.T) {
	simulate(t, func(w *world) {
		one, oneDir := w.folder("one")
		two, twoDir := w.folder("two")
		a, stop := w.start(nil, one, two)
		w.until(5, 31)
		if got := w.log.logged("hour filed"); got != 20 {
			w.Errorf("%d hours are filed at the start, want 5 for each cluster in each sink", got)
		}
		w.until(8, 4)
		if got := w.log.logged("hour filed"); got != 28 {
			w.Errorf("%d hours are filed 4 minutes after the end of the eighth hour, want 28", got)
		}
		w.until(8, 6)
		for name, want := range map[string]float64{"one": 16, "two": 16} {
			if got := number(a.metrics.filed.WithLabelValues(name)); got != want {
				w.Errorf("%v hours are filed in %s, want %v", got, name, want)
			}
			if got := number(a.metrics.behind.WithLabelValues(name)); got != 0 {
				w.Errorf("%s is %v hours behind", name, got)
			}
			if got, want := number(a.metrics.newest.WithLabelValues("west", name)), float64(w.begin.Add(8*time.Hour).Unix()); got != want {
				w.Errorf("the newest hour in %s ends at %v, want %v", name, got, want)
			}
		}
		before := time.Now()
		stop()
		if took := time.Since(before); took > 0 {
			w.Errorf("the archive ends after %v", took)
		}
		for _, dir := range []string{oneDir, twoDir} {
			for _, cluster := range []string{"east", "west"} {
				if diff := cmp.Diff(first(8), w.filed(dir, cluster)); diff != "" {
					w.Errorf("hours of %s (-want +filed):\n%s", cluster, diff)
				}
			}
		}
	})
}

// A sink that fails for two hours must afterwards receive all hours. A sink that fails or hangs must not delay the
// other sinks.
func TestSinkDown(t *testing.T) {
	simulate(t, func(w *world) {
		var down atomic.Bool
		down.Store(true)
		good, goodDir := w.folder("good")
		bad, badDir := w.faultyFolder("bad", func(context.Context) error {
			if down.Load() {
				return errors.New("connection refused")
			}
			return nil
		})
		hung, _ := w.faultyFolder("hung", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		a, stop := w.start(nil, good, bad, hung)
		w.until(7, 8)
		for name, want := range map[string]float64{"good": 14, "bad": 0, "hung": 0} {
			if got := number(a.metrics.filed.WithLabelValues(name)); got != want {
				w.Errorf("%v hours are filed in %s, want %v", got, name, want)
			}
		}
		for name, want := range map[string]float64{"good": 1, "bad": 0, "hung": 0} {
			if got := number(a.metrics.up.WithLabelValues(name)); got != want {
				w.Errorf("state of %s is %v, want %v", name, got, want)
			}
		}
		if got := number(a.metrics.behind.WithLabelValues("bad")); got != 7 {
			w.Errorf("the failed sink is %v hours behind, want 7", got)
		}
		if got := w.log.logged("sink=bad"); got != 1 {
			w.Errorf("the failure is logged %d times, want once:\n%s", got, w.log)
		}
		down.Store(false)
		w.until(7, 20)
		if got := w.log.logged(`"sink works again" sink=bad`); got != 1 {
			w.Errorf("the recovery is logged %d times, want once:\n%s", got, w.log)
		}
		stop()
		for _, dir := range []string{goodDir, badDir} {
			if diff := cmp.Diff(first(7), w.filed(dir, "east")); diff != "" {
				w.Errorf("hours (-want +filed):\n%s", diff)
			}
		}
	})
}

func TestRejectedHour(t *testing.T) {
	simulate(t, func(w *world) {
		attempts := 0
		picky, dir := w.faultyFolder("picky", func(context.Context) error {
			if attempts++; attempts <= 2 || attempts > 10 { // rejects the first hour of each cluster, and every repeated attempt
				return permanent.Error(errors.New("value too long"))
			}
			return nil
		})
		a, stop := w.start(nil, picky)
		w.until(5, 40)
		stop()
		want := first(5)
		delete(want, 0)
		if diff := cmp.Diff(want, w.filed(dir, "east")); diff != "" {
			w.Errorf("hours (-want +filed):\n%s", diff)
		}
		if got := number(a.metrics.refused.WithLabelValues("east", "rejected")); got != 1 {
			w.Errorf("%v hours are refused as rejected, want 1", got)
		}
		if got := w.log.logged("value too long"); got != 2 {
			w.Errorf("the reason is logged %d times, want once for each cluster:\n%s", got, w.log)
		}
	})
}

// The archive looks for late samples once a day. It must write an hour with late samples again, and no other hour.
func TestReadAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	simulate(t, func(w *world) {
		var arrived atomic.Bool
		w.api = foldtest.API{Store: w.samples, Hidden: func(labels map[string]string, at time.Time) bool {
			since := at.Sub(w.begin)
			return !arrived.Load() && labels["node"] == "n0" && labels["cluster"] == "east" && since > 3*time.Hour && since < 4*time.Hour
		}}
		sink, dir := w.folder("one")
		_, stop := w.start(nil, sink)
		w.until(6, 30)
		arrived.Store(true)
		w.until(24, 4)
		if got := w.log.logged("revision=2"); got != 0 {
			w.Errorf("%d hours are filed again before the end of the day", got)
		}
		w.until(24, 6)
		stop()
		if revisions := w.filed(dir, "east"); len(revisions) != 24 || revisions[2] != 1 || revisions[3] != 2 {
			w.Errorf("revisions %v, want 2 for the fourth hour", revisions)
		}
		complete, completeDir := w.folder("complete")
		_, stop = w.start(nil, complete)
		w.until(24, 7)
		stop()
		if diff := cmp.Diff(w.manifest(completeDir, "east"), w.manifest(dir, "east"), cmpopts.IgnoreFields(table.Filed{}, "Revision")); diff != "" {
			w.Errorf("hours (-of complete samples +after the second reading):\n%s", diff)
		}
		if diff := cmp.Diff(first(24), w.filed(dir, "west")); diff != "" {
			w.Errorf("revisions of the other cluster (-want +filed):\n%s", diff)
		}
	})
}

// mixed is a sink in which the rows of one hour differ from the manifest, as if another program had written rows. They
// match after the archive writes the hour again.
type mixed struct {
	sink
	hour  time.Time
	files int
}

func (s *mixed) Intact(_ context.Context, cluster string, hour time.Time) (bool, error) {
	return cluster != "east" || !hour.Equal(s.hour) || s.files > 1, nil
}

func (s *mixed) Replace(ctx context.Context, h *table.Hour) error {
	if h.Cluster == "east" && h.Start.Equal(s.hour) {
		s.files++
	}
	return s.sink.Replace(ctx, h)
}

func TestMixed(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	simulate(t, func(w *world) {
		s := &mixed{hour: w.begin.Add(3 * time.Hour)}
		d, dir := w.changed("one", func(of sink) sink { s.sink = of; return s })
		_, stop := w.start(nil, d)
		w.until(24, 30)
		stop()
		want := first(24)
		want[3] = 2
		if diff := cmp.Diff(want, w.filed(dir, "east")); diff != "" {
			w.Errorf("revisions (-want +filed):\n%s", diff)
		}
		if got := w.log.logged("differ from the manifest"); got != 1 {
			w.Errorf("the difference is logged %d times, want once", got)
		}
	})
}

// If the store fails for two hours, the archive must write these hours later. If the store can never return a certain
// hour, the archive must still write the other hours.
func TestStoreDown(t *testing.T) {
	simulate(t, func(w *world) {
		api := w.api
		broken := fmt.Sprintf("%d.000", w.begin.Add(2*time.Hour).Unix())
		var up atomic.Bool
		var requests atomic.Int64
		w.api = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			if !up.Load() || r.FormValue("time") == broken {
				http.Error(rw, "no space left", http.StatusInternalServerError)
				return
			}
			api.ServeHTTP(rw, r)
		})
		sink, dir := w.folder("one")
		a, stop := w.start(nil, sink)
		w.until(7, 30)
		if got := w.log.logged("store failed"); got != 1 {
			w.Errorf("the failure is logged %d times, want once:\n%s", got, w.log)
		}
		if got := requests.Load(); got < 10 || got > 60 {
			w.Errorf("%d requests in two hours", got)
		}
		if failed, want := number(a.metrics.requests.WithLabelValues("failed")), float64(requests.Load()); failed != want {
			w.Errorf("%v requests failed, want %v", failed, want)
		}
		up.Store(true)
		w.until(8, 20)
		stop()
		want := first(8)
		delete(want, 1)
		delete(want, 2) // the store cannot return the counter values at the start of this hour
		if diff := cmp.Diff(want, w.filed(dir, "east")); diff != "" {
			w.Errorf("hours (-want +filed):\n%s", diff)
		}
	})
}

func TestStop(t *testing.T) {
	simulate(t, func(w *world) {
		var queried atomic.Bool
		w.api = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			queried.Store(r.FormValue("query") != "")
			<-r.Context().Done()
		})
		sink, _ := w.folder("one")
		_, stop := w.start(nil, sink)
		w.until(5, 31)
		before := time.Now()
		stop()
		if took := time.Since(before); took > 0 || !queried.Load() {
			w.Errorf("the archive ends after %v, a query ran: %v", took, queried.Load())
		}
		if got := w.log.logged("failed"); got != 0 {
			w.Errorf("the end is logged as a failure:\n%s", w.log)
		}
	})
}

func TestOnce(t *testing.T) {
	simulate(t, func(w *world) {
		good, goodDir := w.folder("good")
		bad, badDir := w.faultyFolder("bad", func(context.Context) error { return errors.New("disk full") })
		err := w.command(nil, good, bad)
		if !errors.Is(err, ErrIncomplete) || w.log.logged("disk full") != 1 {
			w.Errorf("error is %v, want ErrIncomplete and one log line:\n%s", err, w.log)
		}
		if diff := cmp.Diff(first(5), w.filed(goodDir, "west")); diff != "" {
			w.Errorf("hours (-want +filed):\n%s", diff)
		}
		if got := w.filed(badDir, "west"); len(got) > 0 {
			w.Errorf("hours %v are in the failed sink", got)
		}
	})
}

func TestMetrics(t *testing.T) {
	simulate(t, func(w *world) {
		end := w.begin.AddDate(0, 2, 0)
		d, _ := w.changed("one", func(s sink) sink { return ending{s, end} })
		a, _ := w.start(nil, d)
		w.until(5, 31)
		if got := number(a.metrics.partitions.WithLabelValues("one")); got != float64(end.Unix()) {
			w.Errorf("partitions end at %v, want %d", got, end.Unix())
		}
		c := a.config
		c.places = []sinks.Place{d}
		c.places[0].Events = func(context.Context) (events.Sink, error) { return nil, errors.New("opened for the first event") }
		registry := prometheus.NewRegistry()
		registry.MustRegister(append(a.metrics.collectors(), newReceiver(c, a.log))...)
		families, err := registry.Gather()
		check(w, err)
		got, want := make(map[string][]string), make(map[string][]string)
		for _, family := range families {
			got[family.GetName()] = nil
			for _, label := range family.Metric[0].Label {
				got[family.GetName()] = append(got[family.GetName()], label.GetName())
			}
		}
		for _, m := range Catalogue() {
			if m.Name != serve.Metric.Name {
				want[m.Name] = slices.Sorted(slices.Values(m.Labels))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("labels of metrics (-catalogue +exported):\n%s", diff)
		}
	})
}

type ending struct {
	sink
	end time.Time
}

func (e ending) PartitionsEnd(context.Context, time.Time) (time.Time, error) { return e.end, nil }

func number(m prometheus.Metric) float64 {
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		panic(err)
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

func labelled(c prometheus.Collector) int {
	series := make(chan prometheus.Metric, 100)
	c.Collect(series)
	return len(series)
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown string
		p := &progress{show: func(text string) { shown = text }}
		steps := []struct {
			after time.Duration
			sink  string
			left  int
			want  string
		}{
			{0, "a", 3, ""}, // a short back-fill
			{0, "a", 0, ""},
			{0, "a", 100, "0 of 100 hours"},
			{0, "b", 100, "0 of 100 hours"},
			{10 * time.Second, "a", 60, "0 of 100 hours"},
			{10 * time.Second, "b", 80, "20 of 100 hours, 1.0 a second, 1m20s left"},
			{10 * time.Second, "b", 0, "40 of 100 hours, 1.3 a second, 45s left"},
			{10 * time.Second, "a", 0, ""},
		}
		for i, step := range steps {
			time.Sleep(step.after)
			p.update(step.sink, step.left)
			if shown != step.want {
				t.Errorf("step %d: %q, want %q", i, shown, step.want)
			}
		}
	})
}
