//go:build e2e

// Package scale_test measures the shipped gpuledger-reconciler in clusters of any size. The API server and the
// exporters are fakes, so neither etcd nor a real API server limits the size. The package imports no other package of
// the repository except test/program. Package test/e2e/reconciler measures smaller clusters with a real API server.
package scale_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/gpuledger/gpuledger/test/program"
)

var (
	benchNodes  = flag.Int("nodes", 1000, "number of nodes, each with an exporter for 8 GPUs")
	benchPods   = flag.Int("pods", 10_000, "number of GPU pods")
	benchSteady = flag.Duration("steady", 2*time.Minute, "time for which the steady state is measured, once without scrapes and once with scrapes")
	benchFlags  = flag.String("flags", "", "additional flags for the program, separated by spaces")
)

const (
	// The shipped PodMonitor has this interval.
	scrapeEvery = 30 * time.Second
	// beatEvery is the interval at which a kubelet writes an unchanged status of its Node (nodeStatusReportFrequency).
	beatEvery = 5 * time.Minute
)

type replica struct {
	tb      testing.TB
	program *program.Program
	server  *server
	url     string
	begun   time.Time
}

func start(tb testing.TB, cluster size, flags ...string) *replica {
	tb.Helper()
	serveExporters(tb)
	group := program.OpenFor(tb)
	server := newServer(cluster)
	tb.Cleanup(server.Close)
	tb.Cleanup(server.CloseClientConnections)
	ctx, cancel := context.WithCancel(tb.Context())
	tb.Cleanup(cancel)
	go server.heartbeats(ctx, beatEvery)
	kubeconfig := group.Path("kubeconfig")
	check(tb, writeKubeconfig(kubeconfig, server))
	address := program.AddressFor(tb)
	r := &replica{tb: tb, server: server, url: "http://" + address, begun: time.Now()}
	var err error
	r.program, err = group.Start("gpuledger-reconciler", program.BuiltFor(tb, "gpuledger-reconciler"), append([]string{
		"--kubeconfig=" + kubeconfig, "--web.listen-address=" + address, "--leader-election.identity=" + tb.Name(),
	}, flags...)...)
	check(tb, err)
	return r
}

func writeKubeconfig(file string, s *server) error {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"fake": {Server: s.URL, CertificateAuthorityData: ca}},
		Contexts:       map[string]*api.Context{"fake": {Cluster: "fake"}},
		CurrentContext: "fake",
	}, file)
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// await calls done periodically until it returns true. It also scrapes the page as Prometheus does. It returns the
// number of scrapes.
func (r *replica) await(what string, limit time.Duration, done func() bool) (scrapes int) {
	r.tb.Helper()
	begun, next := time.Now(), time.Now().Add(scrapeEvery)
	for !done() {
		select {
		case <-r.program.Ended():
			r.tb.Fatalf("the program ended: %s", r.program.Tail())
		case <-time.After(100 * time.Millisecond):
		}
		if now := time.Now(); now.After(next) {
			next = now.Add(scrapeEvery)
			r.scrape()
			scrapes++
		}
		if time.Since(begun) > limit {
			r.tb.Fatalf("%s: not after %v\n%s", what, limit, r.program.Tail())
		}
	}
	return scrapes
}

type page struct {
	pods, plain, compressed int
}

// Prometheus requests the compressed page.
func (r *replica) scrape() (p page) {
	r.tb.Helper()
	request, err := http.NewRequestWithContext(r.tb.Context(), http.MethodGet, r.url+"/metrics", http.NoBody)
	check(r.tb, err)
	request.Header.Set("Accept-Encoding", "gzip") // set explicitly, so the client does not decompress the page
	response, err := http.DefaultClient.Do(request)
	check(r.tb, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check(r.tb, err)
	unzipped, err := gzip.NewReader(bytes.NewReader(body))
	check(r.tb, err)
	text, err := io.ReadAll(unzipped)
	check(r.tb, err)
	return page{pods: bytes.Count(text, []byte("\ngpuledger_pod_info{")), plain: len(text), compressed: len(body)}
}

func (r *replica) cpu() time.Duration {
	r.tb.Helper()
	text, err := os.ReadFile(r.proc("stat"))
	check(r.tb, err)
	fields := strings.Fields(string(text))
	var ticks int
	for _, f := range fields[13:15] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(f)
		check(r.tb, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// memory returns a line of /proc/<pid>/status, in MiB.
func (r *replica) memory(name string) int {
	r.tb.Helper()
	text, err := os.ReadFile(r.proc("status"))
	check(r.tb, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			check(r.tb, err)
			return kib >> 10
		}
	}
	r.tb.Fatalf("no %s", name)
	return 0
}

func (r *replica) proc(file string) string {
	return filepath.Join("/proc", strconv.Itoa(r.program.PID()), file)
}

const (
	// resync is short, so that the reconciler reads nearly every exporter in the steady state. The default is 10m.
	resync = "--resync=2m"
	// lease is long, so that the leader stays the leader even if the machine is too busy for the default of 15s.
	lease = "--leader-election.duration=2m"
)

// BenchmarkScale prints a row of the table in docs/performance.md.
func BenchmarkScale(b *testing.B) {
	for b.Loop() {
		bench(b, size{*benchNodes, *benchPods})
	}
}

func bench(b *testing.B, cluster size) {
	flags := append([]string{resync, lease}, strings.Fields(*benchFlags)...)
	fmt.Printf("with a FAKE API server, and %v:\n", flags)
	r := start(b, cluster, flags...)
	scrapes := r.await("all Nodes are labelled", time.Hour, func() bool { n, _ := r.server.labelled(); return n == cluster.nodes })
	labelled, cold := time.Since(r.begun), r.cpu()
	r.await("all pods are on the page", time.Hour, func() bool { return r.scrape().pods == cluster.pods })
	const times = 10
	before := r.cpu()
	var p page
	for range times {
		p = r.scrape()
	}
	scrape := (r.cpu() - before) / times
	_, first := r.server.labelled()
	quiet := r.share(func() { <-time.After(*benchSteady) })
	busy := r.share(func() {
		for begun := time.Now(); time.Since(begun) < *benchSteady; {
			<-time.After(scrapeEvery)
			r.scrape()
		}
	})
	_, patches := r.server.labelled()
	for _, row := range [][2]string{
		{"nodes", strconv.Itoa(cluster.nodes)},
		{"pods", strconv.Itoa(cluster.pods)},
		{"all nodes labelled after", fmt.Sprintf("%.0f s", labelled.Seconds())},
		{"writes per second, most in ten seconds", fmt.Sprintf("%.1f", r.server.most())},
		{"processor time until then", fmt.Sprintf("%.1f s, with %d scrapes", cold.Seconds(), scrapes)},
		{"resident memory", fmt.Sprintf("%d MiB, at most %d MiB", r.memory("VmRSS"), r.memory("VmHWM"))},
		{"page", fmt.Sprintf("%.1f MiB, %.1f MiB compressed", float64(p.plain)/(1<<20), float64(p.compressed)/(1<<20))},
		{"processor time of a scrape", fmt.Sprintf("%d ms", scrape.Milliseconds())},
		{"steady state without scrapes", quiet},
		{"steady state with a scrape every 30 s", busy},
		{"writes in the steady state", fmt.Sprintf("%d of nodes, others: %v", patches-first, r.server.others())},
	} {
		fmt.Printf("%-40s %s\n", row[0], row[1])
	}
	if tail := r.program.Tail(); strings.Contains(tail, "lost leadership") {
		b.Errorf("the program lost the Lease: %s", tail)
	}
	if patches != cluster.nodes {
		b.Errorf("%d writes of Nodes, want %d, one for each Node", patches, cluster.nodes)
	}
}

// share returns the processor time that the process uses while meanwhile runs, in percent of a core.
func (r *replica) share(meanwhile func()) string {
	begun, before := time.Now(), r.cpu()
	meanwhile()
	return fmt.Sprintf("%.2f %% of a core", 100*(r.cpu()-before).Seconds()/time.Since(begun).Seconds())
}

// TestScale checks the benchmark itself with a small cluster. Each Node must be written once, with the serial numbers
// that its exporter reports. Every pod must be on the page.
func TestScale(t *testing.T) {
	cluster := size{30, 300}
	r := start(t, cluster, "--confirm=1s")
	r.await("all Nodes are labelled", time.Minute, func() bool { n, _ := r.server.labelled(); return n == cluster.nodes })
	r.await("all pods are on the page", time.Minute, func() bool { return r.scrape().pods == cluster.pods })
	if _, patches := r.server.labelled(); patches != cluster.nodes {
		t.Errorf("%d writes of %d Nodes", patches, cluster.nodes)
	}
	for i, n := range r.server.applied {
		if got, want := n.labels["gpuledger.io/gpu-7"], fmt.Sprintf("16%05d0007", i); got != want {
			t.Errorf("Node %d has the board %q in slot 7, want %q", i, got, want)
		}
	}
	if others := r.server.others(); len(others) > 0 {
		t.Errorf("other writes: %v", others)
	}
}
