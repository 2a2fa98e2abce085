package inventory_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
)

func snapshot() *gpu.Snapshot {
	return &gpu.Snapshot{
		At:      gpu.Instant{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
		Node:    gpu.Node{Name: "gpu-node-17", SystemUUID: "4c4c4544-0051-3810-8056-b4c04f4a3332"},
		Drivers: []gpu.Driver{{Vendor: "NVIDIA", Name: "nvml", Version: "580.95.05"}},
		GPUs: []gpu.GPU{
			{Present: true, Device: gpu.Device{
				UUID: "GPU-1", PCIBusID: "00000000:1B:00.0", Serial: "1653924020817",
				Platform: gpu.Platform{ChassisSerial: "1821225190819", Slot: new(3), Tray: new(1)},
			}},
			{Device: gpu.Device{UUID: "GPU-2", PCIBusID: "00000000:43:00.0", Serial: "1653924020818"}},
		},
	}
}

// Encoding and decoding must not change a page, except for MIG instances.
func TestRoundTrip(t *testing.T) {
	want := inventory.New(snapshot())
	written := inventory.New(snapshot())
	written.GPUs[0].Partitions = &gpu.Partitioning{Slices: 7, Instances: []gpu.Partition{{ID: "1"}}}
	text, err := json.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	got, err := inventory.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("page (-written +read):\n%s", diff)
	}
	if err := got.Contradiction(); err != nil {
		t.Error(err)
	}
}

// A node without GPUs must have a page that shows whether the driver responds.
func TestNothing(t *testing.T) {
	for name, want := range map[string]bool{"up": true, "down": false} {
		s := &gpu.Snapshot{}
		if want {
			s.Drivers = []gpu.Driver{{Name: "nvml"}}
		}
		text, err := json.Marshal(inventory.New(s))
		if err != nil {
			t.Fatal(err)
		}
		p, err := inventory.Decode(bytes.NewReader(text))
		if err != nil || p.DriverUp != want || len(p.GPUs) != 0 {
			t.Errorf("driver %s: %+v, %v", name, p, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := []struct {
		name, text string
		version    bool
	}{
		{name: "nothing"},
		{name: "a web page", text: "<html>404</html>"},
		{name: "half a page", text: `{"version":1,"gpus":[{"uuid":`},
		{name: "two pages", text: `{"version":1,"gpus":[]}{"version":1,"gpus":[]}`},
		{name: "another type", text: `{"version":1,"gpus":{"uuid":"GPU-1"}}`},
		{name: "a GPU of another type", text: `{"version":1,"gpus":[{"uuid":1}]}`},
		{name: "no GPUs", text: `{"version":1,"driver_up":true}`},
		{name: "null GPUs", text: `{"version":1,"driver_up":true,"gpus":null}`},
		{name: "no version", text: `{"gpus":[]}`, version: true},
		{name: "a later version", text: `{"version":2}`, version: true},
		{name: "null", text: `null`, version: true},
		{name: "a million GPUs", text: `{"version":1,"gpus":[{}` + strings.Repeat(",{}", 1e6) + `]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := inventory.Decode(strings.NewReader(tt.text))
			if err == nil || errors.Is(err, inventory.ErrVersion) != tt.version {
				t.Errorf("got error %v, want an error, and ErrVersion if the version is invalid", err)
			}
		})
	}
}

func TestContradiction(t *testing.T) {
	device := func(uuid, pci string, present bool) inventory.GPU {
		return inventory.GPU{Device: gpu.Device{UUID: uuid, PCIBusID: pci, Serial: "1653924020817"}, Present: present}
	}
	tests := []struct {
		name string
		gpus []inventory.GPU
		bad  bool
	}{
		{"no GPUs", nil, false},
		{"two dies of a board", []inventory.GPU{device("GPU-1", "1", true), device("GPU-2", "2", true)}, false},
		{"a lost GPU and another GPU in its place", []inventory.GPU{device("GPU-1", "1", false), device("GPU-2", "1", true)}, false},
		{"a GPU and a lost GPU in its place", []inventory.GPU{device("GPU-2", "1", true), device("GPU-1", "1", false)}, false},
		{"no UUID", []inventory.GPU{device("", "1", true)}, true},
		{"no address", []inventory.GPU{device("GPU-1", "", true)}, true},
		{"a UUID twice", []inventory.GPU{device("GPU-1", "1", true), device("GPU-1", "2", false)}, true},
		{"two GPUs in one place", []inventory.GPU{device("GPU-1", "1", true), device("GPU-2", "1", true)}, true},
		{"two GPUs in the place of a lost GPU", []inventory.GPU{device("GPU-1", "1", true), device("GPU-2", "1", false), device("GPU-3", "1", true)}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := inventory.Page{GPUs: tt.gpus}
			if err := p.Contradiction(); (err != nil) != tt.bad {
				t.Errorf("got error %v, want an error only if the page is contradictory", err)
			}
		})
	}
}

// No response of an exporter may crash the program. Encoding and decoding must not change an accepted page.
func FuzzDecode(f *testing.F) {
	text, err := json.Marshal(inventory.New(snapshot()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version":1,"time":"0001-01-01T00:00:00Z","gpus":[{"uuid":"\ud800","mig":{"instances":[{}]}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := inventory.Decode(bytes.NewReader(text))
		if err != nil {
			return
		}
		_ = p.Contradiction()
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := inventory.Decode(bytes.NewReader(again))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, q, cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); diff != "" {
			t.Errorf("page (-first +second):\n%s", diff)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	s := snapshot()
	for len(s.GPUs) < 8 {
		s.GPUs = append(s.GPUs, s.GPUs[0])
	}
	text, err := json.Marshal(inventory.New(s))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := inventory.Decode(bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
