package sampler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

func job(id string) gpu.Owner { return gpu.Unit{Manager: "slurm", Name: id}.Owner() }

// declares writes a prolog's file for a GPU. An empty id means that the file names no live job.
func (w *world) declares(uuid string, ids ...string) {
	var list []gpu.Allocation
	for _, a := range w.allocations.List {
		if a.Device.UUID != uuid {
			list = append(list, a)
		}
	}
	for _, id := range ids {
		a := gpu.Allocation{Device: gpu.DeviceName{UUID: uuid}, Owner: job(id), Sharing: gpu.SharingExclusive, Replicas: 1, Live: true, Declared: true}
		if id == "" {
			a.Owner, a.Live = gpu.Owner{Kind: gpu.OwnerUnit, Scope: "slurm"}, false
		}
		if len(ids) > 1 {
			a.Sharing = gpu.SharingTimeSlicing
		}
		list = append(list, a)
	}
	w.allocations.List = list
}

func heldBy(g gpu.GPU, owner gpu.Owner) (held, gpuTime time.Duration) {
	for _, a := range g.Book.Accounts {
		if a.Owner == owner {
			held, gpuTime = held+a.Allocated, gpuTime+a.GPUTime
		}
	}
	return held, gpuTime
}

// A job works on a GPU while a file names other jobs or no live job. The job must be credited with the time in which it
// works. The stage "units" must report the file unless the file also names this job.
func TestFalsePrologFile(t *testing.T) {
	tests := []struct {
		name  string
		jobs  []string
		wrong bool
	}{
		{"other jobs", []string{"999", "301"}, true},
		{"another job", []string{"301"}, true},
		{"no live job", []string{""}, true},
		{"the job and another one", []string{"301", "302"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.declares(first, "301")
			w.declares(second, "302")
			w.runs(first, 41, job("301"))
			w.runs(second, 42, job("302"))
			w.samples[second] = []gpu.Sample{{PID: 42, SM: 0.9}}
			s := w.sampler()
			w.ticks(s, 50)
			w.declares(second, tt.jobs...)
			snap := w.ticks(s, 100)
			st := stageOf(snap, stage.Units)
			if down := st.Failures > 0 && !st.Up; down != tt.wrong || tt.wrong && !strings.Contains(st.Err, second+" is used by slurm/302") {
				t.Errorf("stage %+v, want down %v", st, tt.wrong)
			}
			w.declares(second, "302")
			snap = w.ticks(s, 50)
			held, gpuTime := heldBy(snap.GPUs[1], job("302"))
			if held != 199*time.Second {
				t.Errorf("the job held its GPU for %v, want 199s", held)
			}
			if other, _ := heldBy(snap.GPUs[1], job("301")); tt.wrong && (gpuTime != held || other != 0) {
				t.Errorf("the job has %v of GPU time, and the named job held the GPU for %v; want all of the time and 0", gpuTime, other)
			}
			if first, _ := heldBy(snap.GPUs[0], job("301")); first != 199*time.Second {
				t.Errorf("the other job held its own GPU for %v, want 199s", first)
			}
		})
	}
}

// A file takes precedence over use as long as it may be correct. The job in the file holds the GPU without a process. A
// process of the host, of a pod, or of a job that started after the last poll uses the GPU at this time.
func TestTruePrologFile(t *testing.T) {
	for name, user := range map[string]gpu.Owner{"host": {Kind: gpu.OwnerHost}, "pod": train, "newer job": job("303")} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.declares(first, "301")
			w.allocations.Requested = w.now
			s := w.sampler()
			w.ticks(s, 2)
			w.runs(first, 41, user)
			if name != "newer job" {
				w.allocations.Requested = 0
			}
			snap := w.ticks(s, 9)
			if held, _ := heldBy(snap.GPUs[0], job("301")); held != 10*time.Second {
				t.Errorf("the job held its GPU for %v, want 10s", held)
			}
			if st := stageOf(snap, stage.Units); st.Failures > 0 {
				t.Errorf("stage %+v, want no failure", st)
			}
		})
	}
}

// After the file of the three jobs was removed, each job with a process must still count as a holder, so no energy may
// be exclusive. A job without a process must no longer count as a holder.
func TestMissingPrologFile(t *testing.T) {
	w := newWorld(t)
	w.declares(first, "301", "302", "303")
	w.runs(first, 41, job("301"))
	w.runs(first, 42, job("302"))
	w.samples[first] = []gpu.Sample{{PID: 41, SM: 0.9}}
	s := w.sampler()
	w.ticks(s, 50)
	w.declares(first)
	snap := w.ticks(s, 50)
	for id, want := range map[string]time.Duration{"301": 99 * time.Second, "302": 99 * time.Second, "303": 49 * time.Second} {
		if held, _ := heldBy(snap.GPUs[0], job(id)); held != want {
			t.Errorf("job %s held the GPU for %v, want %v", id, held, want)
		}
	}
	for _, a := range snap.GPUs[0].Book.Accounts {
		if a.Energy[gpu.Exclusive] != 0 {
			t.Errorf("%s: %d mJ are exclusive, want 0", a.Name, a.Energy[gpu.Exclusive])
		}
	}
	if st := stageOf(snap, stage.Units); st.Failures > 0 {
		t.Errorf("stage %+v, want no failure", st)
	}
	w.contexts[first] = []uint32{41}
	snap = w.ticks(s, 50)
	if held, _ := heldBy(snap.GPUs[0], job("302")); held > 100*time.Second {
		t.Errorf("a job without a process held the GPU for %v", held)
	}
}

// Two jobs use different MIG instances. When the file of one job is removed, the jobs must still not share an instance.
func TestMissingFileOfInstance(t *testing.T) {
	w := newWorld(t)
	w.devices[0].Partitions = halves()
	w.declares("MIG-1", "301")
	w.declares("MIG-2", "302")
	w.runs(first, 41, job("301"))
	w.runs(first, 42, job("302"))
	w.places = map[uint32]string{41: "1", 42: "2"}
	s := w.sampler()
	w.ticks(s, 5)
	w.declares("MIG-2")
	snap := w.ticks(s, 5)
	got := make(map[string]gpu.Sharing)
	for _, h := range snap.GPUs[0].Holders {
		got[h.Name] = h.Sharing
	}
	if diff := cmp.Diff(map[string]gpu.Sharing{"301": gpu.SharingMIG, "302": gpu.SharingMIG}, got); diff != "" {
		t.Errorf("sharing (-want +got):\n%s", diff)
	}
}

// The mapper must receive the GPUs that units use, but only if files declare GPUs.
func TestUsed(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 41, job("301"))
	w.runs(second, 42, job("301"))
	s := w.sampler()
	if w.ticks(s, 3); w.used != nil {
		t.Errorf("used %v without files", w.used)
	}
	w.declares("GPU-unknown", "301") // number of a GPU that Slurm did not allocate to the job
	w.ticks(s, 3)
	want := map[gpu.Owner][]string{job("301"): {first, second}}
	if diff := cmp.Diff(want, w.used, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}
