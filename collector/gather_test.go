package collector_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

func snapshots() map[string]*gpu.Snapshot {
	all := map[string]*gpu.Snapshot{"none": nil, "pod_on_instances": podOnInstances()}
	for _, s := range scenarios {
		all[s.name] = s.snapshot()
	}
	return all
}

func pageAndRecord(latest func() *gpu.Snapshot) []*collector.Collector {
	return []*collector.Collector{collector.New(latest, everything), collector.NewRecord(latest)}
}

func direct[T any](t testing.TB, c *collector.Collector, read func([]*dto.MetricFamily) T) T {
	t.Helper()
	families, done, err := c.Gather()
	defer done()
	if err != nil {
		t.Fatal(err)
	}
	return read(families)
}

// TestGatherIsOfRegistry compares the families from Gather with the families from a registry with all checks. The
// families, their order and their fields must be equal.
func TestGatherIsOfRegistry(t *testing.T) {
	for name, s := range snapshots() {
		t.Run(name, func(t *testing.T) {
			registered := [][]*dto.MetricFamily{gather(t, s, everything), gatherRecord(t, s)}
			for i, c := range pageAndRecord(func() *gpu.Snapshot { return s }) {
				if diff := cmp.Diff(stringsOf(registered[i]), direct(t, c, stringsOf)); diff != "" {
					t.Errorf("page %d (-registry +collector):\n%s", i, diff)
				}
			}
		})
	}
}

func stringsOf(families []*dto.MetricFamily) []string {
	var all []string
	for _, f := range families {
		all = append(all, fmt.Sprint(f.GetName(), f.GetHelp(), f.GetType(), f.GetUnit()))
		for _, m := range f.Metric {
			created := ""
			if at := m.GetCounter().GetCreatedTimestamp(); at != nil {
				created = at.AsTime().String()
			}
			labels := make([]string, 0, len(m.Label))
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all = append(all, fmt.Sprintf("%q %v %v %v %s", labels, m.Counter != nil, m.GetCounter().GetValue(), m.GetGauge().GetValue(), created))
		}
	}
	return all
}

// TestChange checks that a page does not depend on earlier pages. It compares the page after each change with the page
// of a new collector.
func TestChange(t *testing.T) {
	all := snapshots()
	// Each change leaves most of the page unchanged.
	changes := map[string]func(*gpu.Snapshot){
		"pod came": func(s *gpu.Snapshot) {
			g := &s.GPUs[0]
			g.Book.Accounts = append(g.Book.Accounts, newAccount("z", "z", "z"))
		},
		"pod left":    func(s *gpu.Snapshot) { g := &s.GPUs[1]; g.Book.Accounts = g.Book.Accounts[1:] },
		"pod renewed": func(s *gpu.Snapshot) { s.GPUs[1].Book.Accounts[0].Opened = now },
		"process came": func(s *gpu.Snapshot) {
			a := &s.GPUs[0].Book.Accounts[0]
			a.Processes = append(a.Processes, newProcess(9, "p", 1, 1))
		},
		"process left":        func(s *gpu.Snapshot) { s.GPUs[0].Processes = nil },
		"GPU left":            func(s *gpu.Snapshot) { s.GPUs = s.GPUs[:2] },
		"twin came":           func(s *gpu.Snapshot) { s.GPUs = append(s.GPUs, s.GPUs[0]) },
		"serial learnt":       func(s *gpu.Snapshot) { s.GPUs[2].Serial = "another" },
		"start unknown":       func(s *gpu.Snapshot) { s.GPUs[2].Renamed = now },
		"XID came":            func(s *gpu.Snapshot) { s.GPUs[1].Events.Last[13] = now },
		"value lost":          func(s *gpu.Snapshot) { s.GPUs[0].Reading.Gauges[gpu.Temperature] = nil },
		"swapped GPUs":        func(s *gpu.Snapshot) { s.GPUs[0], s.GPUs[1] = s.GPUs[1], s.GPUs[0] },
		"only values":         func(s *gpu.Snapshot) { s.GPUs[0].Book.Energy += 1000 },
		"stage was attempted": func(s *gpu.Snapshot) { s.Stages = append(s.Stages, gpu.Stage{Name: "state"}) },
	}
	for name, change := range changes {
		all[name] = fullNode()
		change(all[name])
	}
	names := slices.Sorted(maps.Keys(all))
	want := make(map[string][2][]string)
	for _, name := range names {
		var pages [2][]string
		for i, c := range pageAndRecord(func() *gpu.Snapshot { return all[name] }) {
			pages[i] = direct(t, c, stringsOf)
		}
		want[name] = pages
	}
	var at string
	collectors := pageAndRecord(func() *gpu.Snapshot { return all[at] })
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		before := at
		at = names[random.IntN(len(names))]
		for i, c := range collectors {
			if diff := cmp.Diff(want[at][i], direct(t, c, stringsOf)); diff != "" {
				t.Fatalf("page %d of %s after %s (-want +got):\n%s", i, at, before, diff)
			}
		}
	}
}

// TestConcurrentScrapes scrapes concurrently while series change. Each scrape must contain the data of a single
// snapshot, and a page must not change while it is read.
func TestConcurrentScrapes(t *testing.T) {
	all := []*gpu.Snapshot{fullNode(), crowd(3, 2, 2), heldAccounts(), crowd(3, 2, 3)}
	var want []string
	for _, s := range all {
		want = append(want, string(text(t, gather(t, s, everything))))
	}
	var n atomic.Uint64
	c := collector.New(func() *gpu.Snapshot { return all[n.Add(1)/2%uint64(len(all))] }, everything)
	var scrapes sync.WaitGroup
	for range 8 {
		scrapes.Go(func() {
			for range 50 {
				read := direct(t, c, func(families []*dto.MetricFamily) (twice [2]string) {
					for i := range twice {
						twice[i] = string(text(t, families))
						runtime.Gosched()
					}
					return twice
				})
				if read[0] != read[1] {
					t.Errorf("page changed while it was read:\n%s", cmp.Diff(read[0], read[1]))
					return
				}
				if !slices.Contains(want, read[0]) {
					t.Errorf("page does not match any snapshot:\n%s", read[0])
					return
				}
			}
		})
	}
	scrapes.Wait()
}

// TestPanic checks that the next page is rendered correctly after a panic during the rendering of a page. An HTTP
// server recovers from such panics.
func TestPanic(t *testing.T) {
	good, bad, mended := fullNode(), fullNode(), fullNode()
	bad.Node.Name, mended.Node.Name = "another", "another"
	bad.GPUs[1].Processes = []gpu.LiveProcess{{}} // causes a panic; a real snapshot contains no LiveProcess without a gpu.Process
	for name, next := range map[string]*gpu.Snapshot{"before": good, "mended": mended} {
		t.Run(name, func(t *testing.T) {
			want := direct(t, collector.New(func() *gpu.Snapshot { return next }, everything), stringsOf)
			s := good
			c := collector.New(func() *gpu.Snapshot { return s }, everything)
			direct(t, c, stringsOf)
			s = bad
			func() {
				defer func() {
					if recover() == nil {
						t.Error("rendering did not panic")
					}
				}()
				direct(t, c, stringsOf)
			}()
			s = next
			again := make(chan []string, 1)
			go func() { again <- direct(t, c, stringsOf) }()
			select {
			case got := <-again:
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("page after a panic (-want +got):\n%s", diff)
				}
			case <-time.After(5 * time.Minute):
				t.Error("no page after a panic")
			}
		})
	}
}

// TestLabelsAreMadeOnce checks that a scrape makes less than one memory allocation per ten series if only values have
// changed.
func TestLabelsAreMadeOnce(t *testing.T) {
	both := [2]*gpu.Snapshot{crowd(8, 10, 0), crowd(8, 10, 0)}
	for i := range both[1].GPUs {
		g := &both[1].GPUs[i]
		g.Book.Energy++
		g.LastReading = g.LastReading.Add(time.Second)
		for j := range g.Book.Accounts {
			g.Book.Accounts[j].Energy[gpu.Shared] += gpu.Millijoules(j)
		}
	}
	n := 0
	c := collector.New(func() *gpu.Snapshot { n++; return both[n%2] }, everything)
	allocations := testing.AllocsPerRun(10, func() { direct(t, c, func(f []*dto.MetricFamily) int { return len(f) }) })
	if series := count(t, collector.MainPage, both[0]); allocations > float64(series)/10 {
		t.Errorf("scrape of %d series: %.0f allocations, want at most one per ten series", series, allocations)
	}
}

// TestForgets checks that the collector releases the memory of series that are no longer on the
// page.
func TestForgets(t *testing.T) {
	quiet := crowd(2, 1, 0)
	s := quiet
	c := collector.New(func() *gpu.Snapshot { return s }, everything)
	held := func() uint64 {
		direct(t, c, func(families []*dto.MetricFamily) int { return len(families) })
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	s = crowd(2, 1, 2000)
	crowded := held()
	s = quiet
	after := held()
	if crowded < 4*before || after > before+before/10 {
		t.Errorf("heap: %d bytes before 4000 processes start, %d while they run, %d after they end", before, crowded, after)
	}
	runtime.KeepAlive(c)
}
