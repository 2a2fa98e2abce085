package app_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

const instinct = "0000:c1:00.0" // address of an AMD GPU that the test adds to the simulated GPUs

func (b *bench) addInstinct() {
	b.t.Helper()
	device := filepath.Join("bus/pci/devices", instinct)
	b.writeSys("bus/pci/drivers/amdgpu/module", "")
	b.writeSys(device+"/vendor", "0x1002\n")
	b.writeSys(device+"/class", "0x120000\n")
	b.writeSys(device+"/unique_id", "5a1f0000000000c1\n")
	b.writeSys("class/drm/card9/uevent", "")
	b.writeSys(device+"/hwmon/hwmon9/power1_cap_max", "750000000\n")
	b.writeMetrics(1)
	if err := os.Symlink("../../../bus/pci/devices/"+instinct, filepath.Join(b.cfg.SysFS, "class/drm/card9/device")); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) writeMetrics(joules uint64) {
	b.t.Helper()
	file := slices.Repeat([]byte{0xff}, 288)
	copy(file, []byte{0x20, 0x01, 1, 4})
	binary.LittleEndian.PutUint64(file[24:], joules<<16)
	b.writeSys(filepath.Join("bus/pci/devices", instinct, "gpu_metrics"), string(file))
}

func (b *bench) writeSys(name, content string) {
	b.t.Helper()
	path := filepath.Join(b.cfg.SysFS, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path+".next", []byte(content), 0o644)
	}
	if err == nil {
		err = os.Rename(path+".next", path)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read() map[string]int {
	n := make(map[string]int)
	for _, g := range b.node.Sampler.Latest().GPUs {
		if g.Reading != nil {
			n[g.Vendor]++
		}
	}
	return n
}

func (b *bench) driverStages() (out []string) {
	for _, s := range b.node.Sampler.Latest().Stages {
		if s.Name == "driver" || s.Name == "amdgpu" {
			out = append(out, fmt.Sprintf("%s %v", s.Name, s.Up))
		}
	}
	return out
}

// TestTwoVendors checks a node with GPUs of two vendors. Each vendor must have its own stage, and the GPUs of both
// vendors must be counted. The accounts of every GPU must add up to the energy of the GPU.
func TestTwoVendors(t *testing.T) {
	b := newBench(t, "dgx-h100", false)
	b.addInstinct()
	b.run(2)
	b.writeMetrics(501)
	b.run(1)
	snap := b.node.Sampler.Latest()
	if diff := cmp.Diff(map[string]int{"NVIDIA": 8, "AMD": 1}, b.read()); diff != "" {
		t.Errorf("GPUs with a reading (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"driver true", "amdgpu true"}, b.driverStages()); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if snap.PCIGPUs == nil || *snap.PCIGPUs != 9 || snap.DriverGPUs == nil || *snap.DriverGPUs != 9 {
		t.Errorf("%v GPUs on the bus, the drivers list %v; want 9", snap.PCIGPUs, snap.DriverGPUs)
	}
	i := slices.IndexFunc(snap.GPUs, func(g gpu.GPU) bool { return g.Vendor == "AMD" })
	if book := snap.GPUs[i].Book; book == nil || book.Energy != book.Sum() || math.Abs(book.Energy.Joules()-500) > 0.001 {
		t.Errorf("the book of the AMD GPU is %+v, want 500 J", book)
	}
}

func TestVendorHangs(t *testing.T) {
	b := newBench(t, "dgx-h100", false)
	b.addInstinct()
	b.stop()
	b.cfg.CallTimeout = 2 * time.Second
	b.start()
	b.run(2)
	path := filepath.Join(b.cfg.SysFS, "bus/pci/devices", instinct, "gpu_metrics")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	b.run(1)
	for range 3 {
		b.run(1)
		if diff := cmp.Diff(map[string]int{"NVIDIA": 8}, b.read()); diff != "" {
			t.Errorf("GPUs with a reading (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"driver true", "amdgpu false"}, b.driverStages()); diff != "" {
			t.Errorf("stages (-want +got):\n%s", diff)
		}
		for _, g := range b.node.Sampler.Latest().GPUs {
			if !g.Present || g.Book == nil {
				t.Errorf("GPU %s: present %v, book %v", g.UUID, g.Present, g.Book)
			}
		}
	}
	if pipe, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		_ = pipe.Close() // the hanging call returns
	}
}

// TestOnlyAMD checks that, on a node without NVIDIA GPUs, no stage for NVIDIA's driver is down.
func TestOnlyAMD(t *testing.T) {
	b := newBench(t, "dgx-h100", false)
	b.addInstinct()
	devices, err := filepath.Glob(filepath.Join(b.cfg.SysFS, "bus/pci/devices/*/vendor"))
	if err != nil || len(devices) < 9 {
		t.Fatalf("%d devices, error %v", len(devices), err)
	}
	for _, d := range devices {
		if filepath.Base(filepath.Dir(d)) != instinct {
			if err := os.RemoveAll(filepath.Dir(d)); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.run(2)
	if diff := cmp.Diff(map[string]int{"AMD": 1}, b.read()); diff != "" {
		t.Errorf("GPUs with a reading (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"amdgpu true"}, b.driverStages()); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}

func TestSourceFlag(t *testing.T) {
	for source, want := range map[string][]string{"nvml": {"driver true"}, "amd": {"amdgpu true"}} {
		b := newBench(t, "dgx-h100", false)
		b.addInstinct()
		b.stop()
		b.cfg.Source = source
		b.start()
		b.run(1)
		if diff := cmp.Diff(want, b.driverStages()); diff != "" {
			t.Errorf("--source=%s: stages (-want +got):\n%s", source, diff)
		}
	}
}
