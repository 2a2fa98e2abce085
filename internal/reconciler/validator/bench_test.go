package validator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/nodelabel"
	"github.com/gpuledger/gpuledger/internal/reconciler/validator"
)

// BenchmarkFindings measures the call of Findings that each scrape needs, for 5,000 Nodes with 8 GPUs each.
func BenchmarkFindings(b *testing.B) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	j := validator.New(nodelabel.Rules{Scheme: nodelabel.Own, Prefix: nodelabel.OwnPrefix}, time.Hour)
	for i := range 5000 {
		name := fmt.Sprint("node-", i)
		j.Read(name, name, benchPage(name), now)
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := len(j.Findings(now)); got != 5000 {
			b.Fatalf("%d findings", got)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	j := validator.New(nodelabel.Rules{Scheme: nodelabel.Own, Prefix: nodelabel.OwnPrefix}, time.Hour)
	page := benchPage("a")
	b.ReportAllocs()
	for b.Loop() {
		j.Read("a", "a", page, now)
	}
}

func benchPage(node string) inventory.Page {
	page := inventory.Page{Version: inventory.Version, DriverUp: true, Node: gpu.Node{Name: node}}
	for n := range 8 {
		page.GPUs = append(page.GPUs, inventory.GPU{Present: true, Device: gpu.Device{
			UUID: fmt.Sprintf("GPU-%s-%d", node, n), Serial: fmt.Sprintf("16%s%d", node, n), Vendor: "nvidia", PCIBusID: fmt.Sprintf("00000000:%02X:00.0", 0x10+n),
		}})
	}
	return page
}
