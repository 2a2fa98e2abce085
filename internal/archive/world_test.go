package archive

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/pipes"
)

// world runs archives in simulated time, on the samples of simulated fleets.
type world struct {
	*testing.T
	begin   time.Time
	samples *foldtest.Store
	api     http.Handler
	store   pipes.Listener
	log     *lockedBuffer
	stops   []func()
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) logged(text string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// Tests share the samples of the clusters east and west, so no test may change them.
var eastAndWest = sync.OnceValue(func() *foldtest.Store {
	samples := foldtest.NewStore()
	for i, cluster := range []string{"east", "west"} {
		foldtest.NewFleet(samples, time.Now().UTC(), uint64(i), 2, "cluster", cluster).Run(25 * 60)
	}
	return samples
})

// At the start of the test, the clusters east and west have run for five and a half hours. Both continue until an hour
// after midnight.
func simulate(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, begin: time.Now().UTC(), samples: eastAndWest(), store: make(pipes.Listener), log: &lockedBuffer{}}
		w.api = foldtest.API{Store: w.samples}
		server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.api.ServeHTTP(rw, r) })}
		go func() { _ = server.Serve(w.store) }()
		w.until(5, 30)
		test(w)
		for _, stop := range w.stops {
			stop()
		}
		_ = server.Close()
	})
}

func (w *world) until(hours, minutes int) {
	time.Sleep(time.Until(w.begin.Add(time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute)))
	synctest.Wait()
}

// The archive runs until the caller calls the returned function.
func (w *world) start(args []string, places ...sinks.Place) (*archive, func()) {
	w.Helper()
	a := w.archive(append([]string{"run", "--from=" + w.begin.Format(time.RFC3339)}, args...), places...)
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	for _, f := range a.filers {
		running.Go(func() { f.run(ctx, settle) })
	}
	stop := func() { cancel(); running.Wait() }
	w.stops = append(w.stops, stop)
	return a, stop
}

func (w *world) archive(args []string, places ...sinks.Place) *archive {
	w.Helper()
	c, err := Parse(append(args, "--folder=unused", "--store.url=http://store"))
	check(w, err)
	c.places = nil
	c.Store.Dial = w.store.Dial
	a, err := newArchive(c, slog.New(slog.NewTextHandler(w.log, nil)))
	check(w, err)
	for _, d := range places {
		a.filers = append(a.filers, newFiler(a, d))
	}
	return a
}

func (w *world) folder(name string) (sinks.Place, string) {
	dir := w.TempDir()
	return sinks.Place{Name: name, Label: "--" + name, Open: func(context.Context) (sink, error) { return files.Open(dir, []string{"csv"}) }}, dir
}

type faulty struct {
	sink
	fault func(ctx context.Context) error
}

func (s faulty) Replace(ctx context.Context, h *table.Hour) error {
	if err := s.fault(ctx); err != nil {
		return err
	}
	return s.sink.Replace(ctx, h)
}

func (w *world) faultyFolder(name string, fault func(ctx context.Context) error) (sinks.Place, string) {
	return w.changed(name, func(s sink) sink { return faulty{s, fault} })
}

func (w *world) changed(name string, change func(sink) sink) (sinks.Place, string) {
	d, dir := w.folder(name)
	open := d.Open
	d.Open = func(ctx context.Context) (sink, error) {
		s, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return change(s), nil
	}
	return d, dir
}

// filed returns the revision of each hour of a cluster. Hour 0 is the start of the simulation.
func (w *world) filed(dir, cluster string) map[int]int64 {
	revisions := make(map[int]int64)
	for hour, found := range w.manifest(dir, cluster) {
		revisions[hour] = found.Revision
	}
	return revisions
}

// A sink locks its folder, so no sink may be open during a call of manifest.
func (w *world) manifest(dir, cluster string) map[int]table.Filed {
	w.Helper()
	s, err := files.Open(dir, []string{"csv"})
	check(w, err)
	defer s.Close()
	hours := make(map[int]table.Filed)
	for i := range 25 {
		found, err := s.Filed(w.Context(), cluster, w.begin.Add(time.Duration(i)*time.Hour))
		check(w, err)
		if found != (table.Filed{}) {
			hours[i] = found
		}
	}
	return hours
}

func first(hours int) map[int]int64 {
	all := make(map[int]int64)
	for i := range hours {
		all[i] = 1
	}
	return all
}
