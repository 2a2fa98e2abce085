package collector_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/serve"
)

// crowd returns a node with the given numbers of GPUs, containers per GPU and processes per
// container. The GPUs have no fans.
func crowd(gpus, containers, processes int) *gpu.Snapshot {
	s := &gpu.Snapshot{Drivers: make([]gpu.Driver, 1), PCIGPUs: &gpus, DriverGPUs: &gpus}
	for i := range gpus {
		g := newGPU(i)
		g.Reading.Profile = profile()
		g.Reading.Health, g.Reading.Details = allHealth(i)
		g.Reading.Details = slices.DeleteFunc(g.Reading.Details, func(v gpu.HealthValue) bool { return v.Metric == gpu.FanSpeed })
		g.Fabric = &gpu.Fabric{Problems: []gpu.FabricProblem{{Name: "degraded_bandwidth"}}}
		for j := range containers {
			a := newAccount("team-a", fmt.Sprintf("inference-7d9f8c-%d-%02d", i, j), "server")
			a.Profiled = gpu.Profiled{Time: time.Minute, Tensor: 7 * time.Second, DRAM: 20 * time.Second}
			for k := range processes {
				a.Processes = append(a.Processes, newProcess(uint32(10_000*i+100*j+k+1), "python3", 0, 1_234_567))
				g.Processes = append(g.Processes, newLive(a, k))
			}
			g.Holders = append(g.Holders, gpu.Holder{AccountKey: a.AccountKey, Resource: "nvidia.com/gpu", Sharing: gpu.SharingTimeSlicing, Replicas: 1})
			g.Book.Accounts = append(g.Book.Accounts, a)
		}
		s.GPUs = append(s.GPUs, g)
	}
	return s
}

var sizes = []struct{ gpus, containers, processes int }{
	{8, 0, 0},
	{8, 1, 0},
	{8, 10, 0},
	{8, 1, 10},
	{8, 10, 10},
	{16, 14, 9},
}

func BenchmarkGather(b *testing.B) {
	for _, size := range sizes {
		s := crowd(size.gpus, size.containers, size.processes)
		b.Run(fmt.Sprintf("gpus=%d/containers=%d/processes=%d", size.gpus, size.containers, size.processes), func(b *testing.B) {
			c := collector.New(func() *gpu.Snapshot { return s }, everything)
			b.ReportAllocs()
			for b.Loop() {
				direct(b, c, func(families []*dto.MetricFamily) int { return len(families) })
			}
			b.ReportMetric(float64(count(b, collector.MainPage, s)), "series")
		})
	}
}

func BenchmarkScrape(b *testing.B) {
	for _, size := range sizes {
		s := crowd(size.gpus, size.containers, size.processes)
		b.Run(fmt.Sprintf("gpus=%d/containers=%d/processes=%d", size.gpus, size.containers, size.processes), func(b *testing.B) {
			page := collector.New(func() *gpu.Snapshot { return s }, everything)
			h := serve.NewMetrics(prometheus.NewRegistry(), slog.New(slog.DiscardHandler)).Page(page)
			var bytes int
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
				bytes = w.Body.Len()
			}
			series := float64(count(b, collector.MainPage, s))
			b.ReportMetric(series, "series")
			b.ReportMetric(float64(bytes)/series, "B/series")
		})
	}
}
