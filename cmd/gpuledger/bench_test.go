//go:build realtime

package main_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// BenchmarkScrape scrapes the real binary on a simulated node with eight GPUs over HTTP. It reports the size of the
// response and the processor time per scrape, which includes the exporter's own ticks.
func BenchmarkScrape(b *testing.B) {
	e := start(b, newNode(b, "dgx-h100"))
	p := e.scrapeUntil("every process has an account", func(p page) bool {
		return len(p["gpuledger_process_info"].GetMetric()) >= 8
	})
	series := 0
	for _, f := range p {
		series += len(f.GetMetric())
	}
	var size int
	before := e.cpu()
	for b.Loop() {
		status, body := e.get("/metrics")
		if status != http.StatusOK {
			b.Fatalf("status %d", status)
		}
		size = len(body)
	}
	after := e.cpu()
	b.ReportMetric(float64(series), "series")
	b.ReportMetric(float64(size)/float64(series), "B/series")
	b.ReportMetric(float64((after-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// BenchmarkTick runs the real binary without scrapes.
func BenchmarkTick(b *testing.B) {
	for _, name := range []string{"driver", "engine"} {
		b.Run(name, func(b *testing.B) {
			n := newNode(b, "dgx-h100")
			var flags []string
			if name == "engine" {
				flags = n.EngineFlags(client)
			}
			e := start(b, n, flags...)
			const seconds = 10
			for b.Loop() {
				before := e.cpu()
				<-time.After(seconds * time.Second)
				after := e.cpu()
				b.ReportMetric(float64((after-before).Microseconds())/seconds, "cpu-µs/tick")
			}
		})
	}
}

func (e *exporter) cpu() time.Duration {
	e.t.Helper()
	p, err := procfs.NewProc(e.cmd.Process.Pid)
	if err != nil {
		e.t.Fatal(err)
	}
	stat, err := p.Stat()
	if err != nil {
		e.t.Fatal(err)
	}
	return time.Duration(stat.CPUTime() * float64(time.Second))
}
