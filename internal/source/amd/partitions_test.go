package amd_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// The render nodes of the partitions follow the GPU's render node. The platform devices are numbered from 3.
func (d *tree) divide(mode string, partitions int) {
	d.t.Helper()
	d.remove("sys/class/kfd/kfd/topology/nodes")
	d.remove("sys/devices/platform")
	d.write(folder(bus1)+"/current_compute_partition", mode+"\n")
	for p := range partitions {
		d.addNode(p+1, fmt.Sprint(40011+p), 0x1b00|uint32(p)<<28, 128+p, 8/partitions)
		if p > 0 {
			platform := fmt.Sprintf("sys/devices/platform/amdgpu_xcp_%d", p+2)
			d.mkdir(fmt.Sprintf("%s/drm/renderD%d", platform, 128+p))
			d.link(fmt.Sprintf("sys/class/drm/card%d/device", p+1), platform)
		}
	}
	d.renumbered()
}

func partition(n int, mode, device string, slices int) gpu.Partition {
	return gpu.Partition{
		ID: fmt.Sprint(n), Profile: mode, ProfileID: -1, Start: -1, Slices: slices,
		Devices: []gpu.PartitionDevice{{UUID: device, Index: n, Node: fmt.Sprint("dri/renderD", 128+n)}},
	}
}

// The GPU is divided while the source runs.
func TestPartitions(t *testing.T) {
	dpx := &gpu.Partitioning{Slices: 8, Instances: []gpu.Partition{partition(0, "DPX", bus1, 4), partition(1, "DPX", "amdgpu_xcp_3", 4)}}
	cpx := &gpu.Partitioning{Slices: 8, Instances: []gpu.Partition{partition(0, "CPX", bus1, 1)}}
	for p := range 7 {
		cpx.Instances = append(cpx.Instances, partition(p+1, "CPX", fmt.Sprint("amdgpu_xcp_", p+3), 1))
	}
	d := one(t)
	s := d.open(gputest.NewClock().Now)
	for _, step := range []struct {
		mode       string
		partitions int
		want       *gpu.Partitioning
	}{{"SPX", 1, nil}, {"DPX", 2, dpx}, {"CPX", 8, cpx}, {"SPX", 1, nil}} {
		d.divide(step.mode, step.partitions)
		r := gputest.Read(t, s)
		if len(r.Devices) != 1 {
			t.Fatalf("%s: %d devices, want 1", step.mode, len(r.Devices))
		}
		if diff := cmp.Diff(step.want, r.Devices[0].Partitions); diff != "" {
			t.Errorf("%s: partitions (-want +got):\n%s", step.mode, diff)
		}
		if r.Devices[0].DeviceNode != "dri/renderD128" || r.Readings[0].Energy == nil {
			t.Errorf("%s: device %s, energy %v", step.mode, r.Devices[0].DeviceNode, r.Readings[0].Energy)
		}
	}
}

// If the locations contain no partition numbers, the minor numbers of the render nodes must determine the numbers of
// the partitions.
func TestNumberedByMinor(t *testing.T) {
	d := one(t)
	d.divide("DPX", 2)
	d.addNode(1, "40012", 0x1b00, 129, 4)
	d.addNode(2, "40011", 0x1b00, 128, 4)
	d.renumbered()
	d.write(kfdProc+"100/vram_40012", "1")
	r := gputest.Read(t, d.open(gputest.NewClock().Now))
	if got := r.Devices[0].Partitions.Instances[1].Devices[0].UUID; got != "amdgpu_xcp_3" {
		t.Errorf("the second partition is %q", got)
	}
	if c := r.Readings[0].Contexts; len(c) != 1 || c[0].GPUInstance != "1" {
		t.Errorf("processes %+v, want one on partition 1", c)
	}
}

// A process must belong to the partition on which it uses the most memory.
func TestPartitionProcesses(t *testing.T) {
	d := one(t)
	d.divide("CPX", 8)
	d.write(kfdProc+"100/vram_40013", "5")
	d.write(kfdProc+"101/queues/0/gpuid", "40018")
	d.write(kfdProc+"102/vram_40011", "7")
	d.write(kfdProc+"102/vram_40012", "9")
	want := []gpu.Context{
		{PID: 100, GPUInstance: "2", MemoryUsed: new(uint64(5))},
		{PID: 101, GPUInstance: "7"},
		{PID: 102, GPUInstance: "1", MemoryUsed: new(uint64(16))},
	}
	r := gputest.Read(t, d.open(gputest.NewClock().Now)).Readings[0]
	if diff := cmp.Diff(want, r.Contexts); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
}

func TestPartitionActivity(t *testing.T) {
	d := one(t)
	d.divide("DPX", 2)
	const first, stride = 344 + 104, 232
	file := func(samples uint32, sums [2][4]uint64) string {
		b := mi300(10, 500).u32(40, samples)
		for p := range sums {
			for x, sum := range sums[p] {
				b.u64(first+p*stride+8*x, sum)
			}
		}
		return string(b)
	}
	clock := gputest.NewClock()
	s := d.open(clock.Now)
	read := func(content string, after time.Duration) map[string]float64 {
		d.write(metrics1, content)
		began := clock.Now().Boot
		clock.Advance(after)
		r := gputest.Read(t, s).Readings[0]
		if r.SamplesKnown {
			t.Error("there are samples of processes")
		}
		if !r.InstancesKnown {
			return nil
		}
		got := make(map[string]float64)
		for _, i := range r.Instances {
			got[i.Instance] = i.SM
			if want := (gpu.Span{From: began, To: clock.Now().Boot}); i.Span != want {
				t.Errorf("the activity covers %v, want %v", i.Span, want)
			}
		}
		return got
	}
	steps := []struct {
		name    string
		content string
		after   time.Duration
		want    map[string]float64
	}{
		{"first", file(1000, [2][4]uint64{{5, 5, 5, 5}, {7, 7, 7, 7}}), time.Second, nil},
		{"second", file(2000, [2][4]uint64{{100_005, 50_005, 50_005, 5}, {7, 7, 7, 25_007}}), time.Second, map[string]float64{"0": 0.5, "1": 0.0625}},
		{"a sum that decreased", file(3000, [2][4]uint64{{100_005, 50_005, 50_005, 4}, {7, 7, 7, 25_007}}), time.Second, nil},
		{"after it", file(4000, [2][4]uint64{{100_005, 50_005, 50_005, 4}, {7, 7, 7, 25_007}}), time.Second, map[string]float64{"0": 0, "1": 0}},
		{"a reading after a long time", file(5000, [2][4]uint64{{100_005, 50_005, 50_005, 4}, {7, 7, 7, 25_007}}), time.Hour, nil},
		{"no sums", string(mi300(10, 500)), time.Second, nil},
	}
	for _, step := range steps {
		if diff := cmp.Diff(step.want, read(step.content, step.after), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// The activity of partitions must be known with the longest tick, even if each reading is 100 ms late.
func TestLongTick(t *testing.T) {
	d := one(t)
	d.divide("DPX", 2)
	d.tick = 30 * time.Second
	clock := gputest.NewClock()
	s := d.open(clock.Now)
	for i := range 3 {
		b := mi300(10, 500).u32(40, uint32(30_000*(i+1)))
		for _, sums := range []int{344 + 104, 344 + 104 + 232} { // sums of the compute dies in each partition
			for x := range 4 {
				b.u64(sums+8*x, 0)
			}
		}
		d.write(metrics1, string(b))
		if r := gputest.Read(t, s).Readings[0]; r.InstancesKnown != (i > 0) {
			t.Errorf("reading %d: the activity is known: %v", i, r.InstancesKnown)
		}
		clock.Advance(d.tick + 100*time.Millisecond)
	}
}

// Since revision 1.9 of gpu_metrics, partitions have separate files. The ids of the attributes were counted by hand in
// the kernel's enum amdgpu_metrics_attr_id: 4 is the activity, 9 is the number of samples, and 43 is the activity sum
// of each compute die.
func TestPartitionFiles(t *testing.T) {
	attribute := func(kind, id uint64, values ...uint64) []byte {
		b := binary.LittleEndian.AppendUint64(nil, kind<<20|id<<10|uint64(len(values)))
		for _, v := range values {
			b = append(b, binary.LittleEndian.AppendUint64(nil, v)[:1<<(kind/2)]...)
		}
		return b
	}
	file := func(content byte, list ...[]byte) string {
		all := bytes.Join(list, nil)
		b := binary.LittleEndian.AppendUint16(nil, uint16(8+len(all)))
		b = binary.LittleEndian.AppendUint32(append(b, 1, content), uint32(len(list)))
		return string(append(b, all...))
	}
	old := func(sums ...uint64) string { // revision 1.0
		b := make([]byte, 488)
		binary.LittleEndian.PutUint16(b, 488)
		b[2] = 1
		for x, sum := range sums {
			binary.LittleEndian.PutUint64(b[168+8*x:], sum)
		}
		return string(b)
	}
	for name, files := range map[string][2][2]string{ // sums of two partitions at two readings
		"1.1": {
			{file(1, attribute(6, 43, 5, 5, 5, 5)), file(1, attribute(4, 40, 1), attribute(6, 43, 7, 7, 7, 7))},
			{file(1, attribute(6, 43, 100_005, 50_005, 50_005, 5)), file(1, attribute(4, 40, 1), attribute(6, 43, 7, 7, 7, 25_007))},
		},
		"1.0": {{old(5, 5, 5, 5), old(7, 7, 7, 7)}, {old(100_005, 50_005, 50_005, 5), old(7, 7, 7, 25_007)}},
	} {
		t.Run(name, func(t *testing.T) {
			d := one(t)
			d.divide("DPX", 2)
			clock := gputest.NewClock()
			s := d.open(clock.Now)
			read := func(samples uint64, partitions [2]string) gpu.Reading {
				d.write(metrics1, file(9, attribute(2, 3, 500), attribute(2, 4, 40), attribute(4, 9, samples)))
				d.write(folder(bus1)+"/xcp/xcp_metrics", partitions[0])
				d.write("sys/devices/platform/amdgpu_xcp_3/xcp/xcp_metrics", partitions[1])
				clock.Advance(time.Second)
				return gputest.Read(t, s).Readings[0]
			}
			read(1000, files[0])
			got := make(map[string]float64)
			for _, i := range read(2000, files[1]).Instances {
				got[i.Instance] = i.SM
			}
			if diff := cmp.Diff(map[string]float64{"0": 0.5, "1": 0.0625}, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("activity (-want +got):\n%s", diff)
			}
			for _, bad := range []string{"", "\x08\x00\x01", "\xff\xff\x01\x01", file(2), file(1, attribute(6, 43)), file(1, attribute(6, 43, 1))[:12], old(1)[:400]} {
				if r := read(3000, [2]string{files[1][0], bad}); r.InstancesKnown {
					t.Errorf("%q: the activity is %v", bad, r.Instances)
				}
			}
		})
	}
}

// A GPU whose gpu_metrics file hangs must not delay other GPUs, must be logged once, and must keep its position in the
// list.
func TestHangsAlone(t *testing.T) {
	d := one(t)
	d.addCard(2, bus2, id2)
	d.write(metrics2, string(mi300(10, 500)))
	s := d.open(gputest.NewClock().Now)
	gputest.Read(t, s)
	d.hang(metrics1)
	hasty := gputest.Hasty(s)
	for range 3 {
		r := gputest.Eventually(t, hasty, "the other GPU is read", func(r gpu.Report, err error) bool { return err == nil && len(r.Readings) == 1 })
		if len(r.Devices) != 2 || r.Readings[0].UUID != id2 {
			t.Errorf("%d devices and a reading of %s", len(r.Devices), r.Readings[0].UUID)
		}
	}
	d.release(metrics1, string(mi300(11, 500)))
	r := gputest.Eventually(t, s, "the GPU responds again", func(r gpu.Report, err error) bool {
		return err == nil && len(r.Readings) == 2 && r.Readings[0].Energy != nil
	})
	if got := r.Readings[0].Energy.Joules(); got != 11 {
		t.Errorf("energy %v J, want 11", got)
	}
	// On a busy machine, the reading of the other GPU may be late too.
	if n := strings.Count(d.log.String(), "quarantined until the call returns\" gpu="+id1); n != 1 {
		t.Errorf("%d lines about the quarantine of %s in the log, want 1:\n%s", n, id1, &d.log)
	}
}

func TestAllHang(t *testing.T) {
	d := one(t)
	s := gputest.Hasty(d.open(gputest.NewClock().Now))
	d.hang(metrics1)
	for range 2 {
		if r, err := s.Read(t.Context()); err == nil {
			t.Errorf("the only GPU hangs, but the report has %d devices", len(r.Devices))
		}
	}
}

// A GPU must take one position for each of its partitions, even while it cannot be identified.
func TestPositions(t *testing.T) {
	d := one(t)
	d.divide("CPX", 8)
	d.addCard(9, bus2, "")
	d.addNode(9, "40099", 0x1c00, 136, 8)
	d.addCard(10, "0000:1d:00.0", "5a1f00000000001d")
	d.addNode(10, "40100", 0x1d00, 137, 8)
	d.renumbered()
	got := make(map[string]int)
	for _, g := range gputest.Read(t, d.open(gputest.NewClock().Now)).Devices {
		got[g.UUID] = *g.Position
	}
	if diff := cmp.Diff(map[string]int{id1: 0, "5a1f00000000001d": 9}, got); diff != "" {
		t.Errorf("positions (-want +got):\n%s", diff)
	}
}
