//go:build e2e

package reconciler_test

import (
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
)

var (
	benchNodes  = flag.Int("nodes", 500, "number of nodes, each with an exporter for 8 GPUs")
	benchPods   = flag.Int("pods", 5000, "number of GPU pods")
	benchSteady = flag.Duration("steady", time.Minute, "time for which the cluster does not change")
)

const (
	maxColdStart = 6 * time.Minute // for 5,000 nodes at 20 writes per second
	maxWriteRate = 20.0 * 1.05     // writes per second, over ten seconds
	maxResident  = 448.0           // in MiB; the program's own limit if the memory limit is the shipped 512 MiB
	maxRepair    = 5 * time.Second
	maxScrape    = time.Second // for 99 of 100 scrapes
)

func BenchmarkReconciler(b *testing.B) {
	for b.Loop() {
		bench(b)
	}
}

func bench(b *testing.B) {
	begun := time.Now()
	newFleet(b, *benchNodes, *benchPods)
	printLine("%d nodes with exporters and %d GPU pods, created in %v", *benchNodes, *benchPods, time.Since(begun).Round(time.Second))

	start := now(b)
	begun = time.Now()
	r := lead(b, "--resync=2m", "--confirm=10s", "--leader-election.duration=15s")
	writes := awaitWrites(b, start, *benchNodes)
	report(b, "cold-start-s", time.Since(begun).Seconds(), maxColdStart.Seconds())
	report(b, "max-writes/s", maxRate(writes), maxWriteRate)
	printLine("after the cold start: %s, %.1f ms for each node", r.process(), 1000*r.cpu()/float64(*benchNodes))

	eventually(b, "all pods are shown", func() bool { return len(r.scrape().Matches("gpuledger_pod_info", nil)) == *benchPods })
	benchScrapes(b, r)
	benchRepair(b)
	benchSteadyState(b, r, start)
	printLine("at the end: %s", r.process())
	report(b, "peak-MiB", r.status("VmHWM")/1024, maxResident)
}

// printLine prints immediately. The log of a benchmark would be truncated, and printed only at the end.
func printLine(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// The benchmark fails if the measurement exceeds its limit.
func report(b *testing.B, name string, value, limit float64) {
	b.ReportMetric(value, name)
	result := "ok"
	if value > limit {
		result = "too much"
		b.Fail()
	}
	printLine("%-14s %10.3f   at most %g: %s", name, value, limit, result)
}

func awaitWrites(b *testing.B, since *cluster.Audit, nodes int) []cluster.Request {
	for begun := time.Now(); ; {
		writes := must(since.Requests(func(r *cluster.Request) bool {
			return r.User.Name == username && r.Verb == "patch" && r.Object.Resource == "nodes" && r.Status.Code == http.StatusOK
		}))(b)
		written := make(map[string]bool)
		for _, w := range writes {
			written[w.Object.Name] = true
		}
		if len(written) == nodes {
			return writes
		}
		if time.Since(begun) > 2*maxColdStart {
			b.Fatalf("only %d nodes were written in %v", len(written), 2*maxColdStart)
		}
		<-time.After(time.Second)
	}
}

// maxRate returns the highest number of writes per second, averaged over ten seconds.
func maxRate(writes []cluster.Request) float64 {
	const window = 10 * time.Second
	most, first := 0, 0
	for i := range writes {
		for writes[i].Time.Sub(writes[first].Time) > window {
			first++
		}
		most = max(most, i-first+1)
	}
	return float64(most) / window.Seconds()
}

// Prometheus requests compressed scrapes.
func benchScrapes(b *testing.B, r *replica) {
	const scrapes = 100
	var took []time.Duration
	var compressed, plain int64
	before := r.cpu()
	for range scrapes {
		begun := time.Now()
		compressed, plain = r.scrapeCompressed()
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	printLine("page of %.1f MiB, %.1f MiB compressed; half of the scrapes took at most %v; %.2f s of CPU each",
		float64(plain)/(1<<20), float64(compressed)/(1<<20), took[scrapes/2].Round(time.Millisecond), (r.cpu()-before)/scrapes)
	report(b, "scrape-p99-s", took[scrapes*99/100].Seconds(), maxScrape.Seconds())
}

func (r *replica) scrapeCompressed() (compressed, plain int64) {
	r.t.Helper()
	request := must(http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url+"/metrics", http.NoBody))(r.t)
	request.Header.Set("Accept-Encoding", "gzip") // Go does not decompress the response if this header is set explicitly
	response, err := http.DefaultClient.Do(request)
	check(r.t, err)
	defer response.Body.Close()
	sent := &counter{reader: response.Body}
	unzipped := must(gzip.NewReader(sent))(r.t)
	plain = must(io.Copy(io.Discard, unzipped))(r.t)
	return sent.bytes, plain
}

type counter struct {
	reader io.Reader
	bytes  int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.reader.Read(p)
	c.bytes += int64(n)
	return n, err
}

// benchRepair edits a label of one Node and measures how long the reconciler takes to restore it.
func benchRepair(b *testing.B) {
	n := &node{t: b, name: nodeName(0)}
	want, begun, since := n.labels(), time.Now(), now(b)
	n.patch(`{"metadata":{"labels":{"gpuledger.io/gpu-0":"other"}}}`)
	n.awaitLabels(want)
	report(b, "repair-s", time.Since(begun).Seconds(), maxRepair.Seconds())
	if writes := nodeWrites(b, since); len(writes) != 1 || writes[0].Object.Name != n.name {
		b.Errorf("the repair took %d writes: %v", len(writes), writes)
	}
}

func benchSteadyState(b *testing.B, r *replica, start *cluster.Audit) {
	printLine("steady for %v, from %s", *benchSteady, r.process())
	since, used, begun := now(b), r.cpu(), time.Now()
	<-time.After(*benchSteady) // writes are counted during this time
	writes := allWrites(b, since)
	printLine("processor time while nothing changes: %.2f %% of a core, with a reading every 2 minutes", 100*(r.cpu()-used)/time.Since(begun).Seconds())
	for _, w := range writes[:min(len(writes), 5)] {
		printLine("a write: %v", w)
	}
	report(b, "steady-writes", float64(len(writes)), 0)
	watches := openWatches(b, start)
	printLine("open watches: %v", watches)
	most := 0
	for _, n := range watches {
		most = max(most, n)
	}
	report(b, "watches", float64(most), 1)
}

func openWatches(b *testing.B, since *cluster.Audit) map[string]int {
	open := make(map[string]string)
	must(since.Requests(func(r *cluster.Request) bool {
		if r.User.Name != username || r.Verb != "watch" {
			return false
		}
		if r.Stage == "ResponseStarted" {
			open[r.ID] = r.Object.Resource
		} else {
			delete(open, r.ID)
		}
		return false
	}))(b)
	count := make(map[string]int)
	for _, resource := range open {
		count[resource]++
	}
	return count
}

func (r *replica) process() string {
	r.t.Helper()
	return fmt.Sprintf("%.0f MiB resident, maximum %.0f MiB, heap of %.0f MiB, %.1f s of CPU",
		r.status("VmRSS")/1024, r.status("VmHWM")/1024, r.value("go_memstats_heap_alloc_bytes", nil)/(1<<20), r.cpu())
}

// cpu returns seconds.
func (r *replica) cpu() float64 {
	r.t.Helper()
	stat := strings.Fields(string(must(os.ReadFile(r.proc("stat")))(r.t)))
	ticks := must(strconv.Atoi(stat[13]))(r.t) + must(strconv.Atoi(stat[14]))(r.t) // utime and stime, in hundredths of a second
	return float64(ticks) / 100
}

// status returns a value from /proc/<pid>/status in KiB.
func (r *replica) status(name string) float64 {
	r.t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile(r.proc("status")))(r.t))) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return must(strconv.ParseFloat(strings.Fields(value)[0], 64))(r.t)
		}
	}
	r.t.Fatalf("no %s in %s", name, r.proc("status"))
	return 0
}

func (r *replica) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", r.cmd.Process.Pid, file)
}
