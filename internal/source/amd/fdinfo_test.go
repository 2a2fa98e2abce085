package amd_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// busy is the busy time of the engine gfx.
func (d *tree) addClient(pid, fd int, node, id, address string, busy time.Duration) {
	d.t.Helper()
	f := fmt.Sprintf("proc/%d/", pid)
	d.mkdir(f + "fd")
	link := fmt.Sprintf("%sfd/%d", f, fd)
	d.remove(link)
	if err := os.Symlink(node, d.path(link)); err != nil {
		d.t.Fatal(err)
	}
	d.write(fmt.Sprintf("%sfdinfo/%d", f, fd), fmt.Sprintf(
		"pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t%s\ndrm-pdev:\t%s\ndrm-memory-vram:\t2048 KiB\ndrm-engine-gfx:\t%d ns\n",
		id, address, busy.Nanoseconds()))
}

// The device node of this client is open twice.
func (d *tree) work(busy time.Duration) {
	d.addClient(200, 3, "/dev/dri/renderD128", "2", bus1, busy)
	d.addClient(200, 4, "/dev/dri/card1", "2", bus1, busy)
}

// media returns a GPU that is 80 % busy, a process in amdkfd, and DRM clients.
func media(t *testing.T) *tree {
	d := one(t)
	d.clients = true
	d.mkdir(folder(bus1) + "/drm/renderD128")
	d.write(metrics1, string(mi300(10, 500).u16(12, 80)))
	d.write(kfdProc+"100/vram_40011", "4096\n")
	d.write(kfdProc+"100/stats_40011/cu_occupancy", "304\n")
	d.addClient(100, 3, "/dev/dri/renderD128", "1", bus1, 0) // every process that amdkfd lists has such a file
	d.work(time.Second)
	d.addClient(200, 5, "/dev/dri/renderD128", "3", bus1, time.Minute)
	d.addClient(201, 3, "/dev/dri/renderD128", "9", bus1, 0) // never worked
	d.addClient(300, 3, "/dev/dri/renderD129", "4", bus1, 0) // another node
	d.addClient(301, 3, "/dev/dri/renderD128", "5", bus2, 0) // another GPU
	d.addClient(302, 3, "/dev/nvidia0", "6", bus1, 0)        // not a DRM device node
	d.addClient(303, 3, "/dev/dri/renderD128", "", bus1, 0)  // no id
	d.addClient(202, 3, "/dev/dri/renderD128", "10", bus1, 0)
	d.write("proc/202/fdinfo/3", "drm-driver:\tamdgpu\ndrm-client-id:\t10\ndrm-pdev:\t"+bus1+"\ndrm-engine-dec:\t77 ns\n")
	d.write("proc/self/fdinfo/3", "drm-driver:\tamdgpu\n")      // not the folder of a process
	d.write("proc/304/fdinfo/3", "drm-driver:\ti915\n")         // not a file of amdgpu
	d.addClient(305, 3, "/dev/dri/renderD128", "8", bus1, -1e9) // malformed
	return d
}

// usesOf reads twice and calls step between the readings.
func usesOf(t *testing.T, d *tree, step func()) (memory map[uint32]uint64, activity map[uint32]float64) {
	t.Helper()
	clock := gputest.NewClock()
	s := d.open(clock.Now)
	gputest.Read(t, s)
	step()
	clock.Advance(time.Second)
	r := gputest.Read(t, s).Readings[0]
	memory, activity = make(map[uint32]uint64), make(map[uint32]float64)
	for _, c := range r.Contexts {
		memory[c.PID] = *c.MemoryUsed
	}
	for _, x := range r.Samples {
		activity[x.PID] = x.SM
	}
	if !r.SamplesKnown {
		activity = nil
	}
	return memory, activity
}

// Each DRM client must get its own busy time. The remaining activity must be divided among the processes in amdkfd.
func TestClients(t *testing.T) {
	tests := map[string]struct {
		step func(*tree)
		want map[uint32]float64
	}{
		"both work":       {func(d *tree) { d.work(1300 * time.Millisecond) }, map[uint32]float64{100: 0.5, 200: 0.3}},
		"no client works": {func(*tree) {}, map[uint32]float64{100: 0.8}},
		"busy time falls": {func(d *tree) { d.work(0) }, map[uint32]float64{100: 0.8}},
		"busy time jumps": {func(d *tree) { d.work(time.Hour) }, nil},
		"the process of amdkfd waits": {func(d *tree) {
			d.write(kfdProc+"100/stats_40011/cu_occupancy", "0\n")
			d.work(1700 * time.Millisecond)
		}, map[uint32]float64{100: 0.1, 200: 0.7}},
		"amdkfd's rests": {func(d *tree) {
			d.write(kfdProc+"100/stats_40011/cu_occupancy", "0\n")
			d.work(1760 * time.Millisecond)
		}, map[uint32]float64{200: 0.76}},
		"a file is closed": {func(d *tree) { d.remove("proc/200/fdinfo/4") }, map[uint32]float64{100: 0.8}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := media(t)
			memory, activity := usesOf(t, d, func() { tt.step(d) })
			if diff := cmp.Diff(map[uint32]uint64{100: 4096, 200: 4 << 20, 202: 0}, memory); diff != "" {
				t.Errorf("memory (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, activity, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
				t.Errorf("activity (-want +got):\n%s", diff)
			}
		})
	}
}

// If neither of two processes in amdkfd occupies the GPU at the moment of the reading, the activity must be unknown.
func TestTwoWaiting(t *testing.T) {
	d := media(t)
	_, activity := usesOf(t, d, func() {
		for _, pid := range []string{"100", "101"} {
			d.write(kfdProc+pid+"/vram_40011", "4096\n")
			d.write(kfdProc+pid+"/stats_40011/cu_occupancy", "0\n")
		}
		d.work(1300 * time.Millisecond)
	})
	if activity != nil {
		t.Errorf("activity is %v, want none", activity)
	}
}

// DRM clients must be ignored by default and on a GPU with partitions. If the list of a process's open files is
// unreadable, this must be logged once.
func TestNoClients(t *testing.T) {
	d := media(t)
	d.clients = false
	if memory, _ := usesOf(t, d, func() {}); len(memory) != 1 {
		t.Errorf("processes %v, want one", memory)
	}
	d = media(t)
	d.divide("CPX", 8)
	if memory, _ := usesOf(t, d, func() {}); memory[200] != 0 {
		t.Errorf("processes %v, want no client of DRM", memory)
	}
	if os.Getuid() == 0 {
		t.Log("root can list all files, so refused access is not tested")
		return
	}
	d = media(t)
	if err := os.Chmod(d.path("proc/200/fd"), 0); err != nil {
		t.Fatal(err)
	}
	usesOf(t, d, func() {})
	if n := strings.Count(d.log.String(), "some DRM clients are unknown"); n != 1 {
		t.Errorf("%d lines in the log, want 1", n)
	}
}

// For any content of an fdinfo file, the activity must not exceed the time between two readings.
func FuzzClient(f *testing.F) {
	f.Add("drm-driver:\tamdgpu\ndrm-client-id:\t2\ndrm-pdev:\t0000:1b:00.0\ndrm-engine-gfx:\t5 ns\n", "drm-engine-gfx:\t18446744073709551615 ns")
	f.Fuzz(func(t *testing.T, first, second string) {
		d := media(t)
		d.write("proc/200/fdinfo/5", first)
		memory, activity := usesOf(t, d, func() { d.write("proc/200/fdinfo/5", second) })
		for pid := range memory {
			if a := activity[pid]; a < 0 || a > 1 {
				t.Errorf("process %d has the activity %f", pid, a)
			}
		}
	})
}
