//go:build e2e && realtime

package main_test

import (
	"encoding/json"
	"flag"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/test/exposition"
)

var hours = flag.Int("hours", 24, "number of simulated hours in TestSoak; an hour takes 25 seconds")

const (
	// Events on the simulated node happen faster than on a real node. Only two of the exporter's intervals can be
	// shortened to match: the tick and the retention.
	soakTick = 500 * time.Millisecond
	// Five pods per second with a retention of one minute create as many series as one pod per second with a retention
	// of five minutes.
	soakRetention = time.Minute
	podsPerSecond = 5

	// calm is the time from the start of the node to the first pod of the day.
	calm = 20 * time.Second
	// accelerated is the time in which the test simulates an hour. This hour contains as many events as the worst real
	// hour.
	accelerated = 25 * time.Second
	stormSize   = 1000
	stormSpan   = 3 * time.Second
	// stormPause is longer than the time for which the exporter keeps ended processes, as between storms on a real
	// node. It does not divide the length of an hour, so storms sometimes coincide with other events.
	stormPause = 70 * time.Second
	// After rest, all data of the day have expired. Accounts expire after the retention time, processes after one
	// minute, and names of containers after five minutes.
	rest = 330 * time.Second

	scrapers    = 10
	scrapeEvery = 5 * time.Second
	// unstable is the time for which an unstable stage must succeed before the exporter logs its recovery.
	unstable = time.Minute
	// mostResident limits the resident memory, in MiB.
	mostResident = 40
	// mostGrowth limits the growth of the memory from one quarter of the day to the next, in MiB.
	mostGrowth = 1
	// mostKept limits the growth of the average live heap during the day, in MiB. Some growth is permitted, because
	// maps and pools do not shrink.
	mostKept = 2
	mebi     = 1 << 20
)

// TestSoak simulates a day with short pods, storms of processes, restarts of the kubelet and reloads of the driver. Ten
// scrapers scrape the exporter. The exporter must release the memory of ended pods, so its memory must not grow. The
// accounts of each GPU must add up to the energy of its board, and nothing may be logged in quiet hours.
// docs/performance.md contains the results of the last run.
func TestSoak(t *testing.T) {
	d := newDay(*hours)
	began := time.Now()
	n := openNode(t, d.scenario(t))
	e := run(t, withLimits(n.Env()), onNode(n, "--tick="+soakTick.String(), "--retention="+soakRetention.String(), "--nvml.call-timeout=5s")...)
	s := newSoak(t, e, began)
	s.liveUntil(calm)
	before := e.scrape()
	s.liveUntil(d.end + rest)
	after := e.scrape()
	s.stop()

	checkBalance(t, after)
	checkSeries(t, before, after)
	s.checkEvents(d, after)
	s.checkVitals(d)
	s.checkLog(d)
	e.stop()
}

type soak struct {
	*exporter
	began time.Time
	done  chan struct{}
	group sync.WaitGroup

	mu     sync.Mutex
	vitals []vital
	// heap is the live heap after the last garbage collection, in MiB. heap and goroutines are from the last page.
	heap, goroutines float64
	pods             map[string]bool // UIDs of all pods of the day that had an account
	scrapes          int
	compared         int
	series           int // maximum number of series on a page
	storms           int // maximum number of processes that had series
}

func newSoak(t *testing.T, e *exporter, began time.Time) *soak {
	s := &soak{exporter: e, began: began, done: make(chan struct{}), pods: make(map[string]bool)}
	for i := range scrapers {
		s.group.Go(func() { s.scraper(i) })
	}
	s.group.Go(s.measure)
	t.Cleanup(s.stop)
	return s
}

func (s *soak) liveUntil(at time.Duration) {
	s.t.Helper()
	select {
	case <-time.After(time.Until(s.began.Add(at))):
	case <-s.exited:
		s.t.Fatalf("the exporter ended during the test: %v", s.err)
	}
}

func (s *soak) stop() {
	select {
	case <-s.done:
	default:
		close(s.done)
	}
	s.group.Wait()
}

func (s *soak) every(d time.Duration, call func()) {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-ticker.C:
			call()
		}
	}
}

// All scrapers scrape at the same times. Each scraper keeps its connection open, and compares every page with the
// previous page.
func (s *soak) scraper(i int) {
	// Each scraper has its own address, as separate machines would.
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))}}
	client := &http.Client{Transport: &http.Transport{DialContext: from.DialContext}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	seen := make(map[string]sample)
	s.every(scrapeEvery, func() {
		p, err := s.scrapeCountersBy(client)
		if err != nil {
			s.t.Errorf("scrape: %v", err)
			return
		}
		checkBalance(s.t, p)
		now := counters(p)
		for series, was := range seen {
			if is, there := now[series]; there && (is.value < was.value || !is.created.Equal(was.created)) {
				s.t.Errorf("%s changed from %v (created %v) to %v (created %v)", series, was.value, was.created, is.value, is.created)
			}
		}
		s.note(p, len(seen))
		seen = now
	})
}

func (s *soak) note(p page, compared int) {
	series := 0
	for _, f := range p {
		series += len(f.GetMetric())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range p.Matches("gpuledger_container_energy_joules_total", map[string]string{"namespace": "batch"}) {
		if l := exposition.Labels(m); strings.HasPrefix(l["pod"], "job-") {
			s.pods[l["pod_uid"]] = true
		}
	}
	s.heap = p.Sum("go_memstats_next_gc_bytes", nil) / (1 + p.Sum("go_gc_gogc_percent", nil)/100) / mebi
	s.goroutines = p.Sum("go_goroutines", nil)
	s.scrapes++
	s.compared += compared
	s.series = max(s.series, series)
	s.storms = max(s.storms, len(p["gpuledger_process_info"].GetMetric()))
}

func checkSeries(t *testing.T, before, after page) {
	t.Helper()
	was, is := before.Series(), after.Series()
	t.Logf("%d series before the day, %d after it", len(was), len(is))
	for _, s := range is {
		if !slices.Contains(was, s) {
			t.Errorf("series remains after the day: %s", s)
		}
	}
	for _, s := range was {
		if !slices.Contains(is, s) {
			t.Errorf("series is missing after the day: %s", s)
		}
	}
}

func (s *soak) checkEvents(d day, after page) {
	s.t.Helper()
	resets := after.Sum("gpuledger_gpu_energy_resets_total", nil)
	if want := len(after.UUIDs()) * d.reloads; int(resets) != want {
		s.t.Errorf("%v energy counters restarted, want %d", resets, want)
	}
	// A pod that runs for one second may have no account if the driver or the kubelet does not respond at that time.
	if got := float64(len(s.pods)) / float64(d.podCount); got < 0.9 {
		s.t.Errorf("%d of %d pods had an account", len(s.pods), d.podCount)
	}
	if d.reloads > 0 && s.storms < stormSize {
		s.t.Errorf("at most %d processes had series, but a storm has %d processes", s.storms, stormSize)
	}
	s.t.Logf("%d hours: %d of %d pods had an account, up to %d processes had series; %d restarts of the kubelet, %d reloads of the driver, %v counters restarted",
		d.hours, len(s.pods), d.podCount, s.storms, d.restarts, d.reloads, resets)
	s.t.Logf("%d scrapes, each of up to %d series; %d counters compared", s.scrapes, s.series, s.compared)
}

// Nothing may be logged in quiet hours. Each failure of a dependency may cause at most two lines.
func (s *soak) checkLog(d day) {
	s.t.Helper()
	most := map[string]int{
		"driver": 2 * d.reloads, "xid": 2 * d.reloads, "pod_resources": 2 * d.restarts,
		// Each reload restarts the counters of eight GPUs.
		"": 2 * 8 * d.reloads,
	}
	lines := make(map[string]int) // number of lines by stage
	for _, text := range s.logged() {
		var line struct {
			Time  time.Time
			Stage string
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			s.t.Errorf("%q: %v", text, err)
			continue
		}
		switch at := line.Time.Sub(s.began); {
		case at < calm/2: // the start of the exporter
		case at < d.troubles || at > d.end+accelerated/2+unstable:
			s.t.Errorf("logged while nothing was wrong: %s", text)
		default:
			lines[line.Stage]++
		}
	}
	for stage, n := range lines {
		if n > most[stage] {
			s.t.Errorf("%d lines about stage %q, want at most %d", n, stage, most[stage])
		}
	}
	s.t.Logf("lines logged by stage: %v", lines)
}
