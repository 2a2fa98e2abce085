package dcgm_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// If a reading contains no activity of MIG instances, it must get the engine's values. The engine must have measured
// all instances in the driver's list.
func TestActivity(t *testing.T) {
	e := newEngine(t, gputest.Busy(0), gputest.Busy(1), gputest.Busy(2), gputest.Full(3))
	e.cfg.Profiling = true
	s := e.open()
	gputest.Read(t, s)
	e.pass(time.Second)
	report := e.driver()
	known := []gpu.InstanceSample{{Instance: "2", SM: 0.125}}
	report.Readings[1].Instances, report.Readings[1].InstancesKnown = known, true
	report.Devices[2].Partitions = &gpu.Partitioning{Slices: 7, Instances: report.Devices[2].Partitions.Instances[:1]}
	if err := s.Enrich(t.Context(), &report); err != nil {
		t.Fatal(err)
	}
	now := e.clock.Now().Boot
	var want []gpu.InstanceSample
	for _, i := range e.node.GPUs[0].Reading.Instances {
		i.Span = gpu.Span{From: now - time.Second, To: now}
		want = append(want, i)
	}
	for i, want := range [][]gpu.InstanceSample{want, known, nil, nil} {
		if r := report.Readings[i]; r.InstancesKnown != (want != nil) || cmp.Diff(want, r.Instances) != "" {
			t.Errorf("GPU %d (-want +got):\n%s", i, cmp.Diff(want, r.Instances))
		}
	}
}

func TestAbsurdActivity(t *testing.T) {
	for _, absurd := range []string{"-inf", "inf", "nan", "-1", "2"} {
		e := newEngine(t, gputest.Busy(0))
		e.cfg.Profiling = true
		e.fault(e.node.GPUs[0].Device.UUID, "field:1002", "value:"+absurd)
		s := e.open()
		for range 3 {
			if r := gputest.Read(t, s).Readings[0]; r.InstancesKnown {
				t.Errorf("%s: instances are known: %v", absurd, r.Instances)
			}
			e.pass(time.Second)
		}
	}
}

// If the engine cannot measure instances, all other values must be served.
func TestProfiling(t *testing.T) {
	e := newEngine(t, gputest.Busy(0), gputest.Full(1))
	e.cfg.Profiling = true
	e.fields = "\tprofiling=0"
	s := e.open()
	for range 3 {
		if r := e.readAll(s).Readings[0]; r.InstancesKnown {
			t.Errorf("instances are known: %v", r.Instances)
		}
		e.pass(time.Second)
	}
	if n := strings.Count(e.logged.String(), "omitting fields"); n != 1 {
		t.Errorf("logged %d times: %s", n, e.logged.String())
	}
}

// With any interval between readings, the activity of instances must be known from the second reading on.
func TestTicks(t *testing.T) {
	for _, tick := range []time.Duration{200 * time.Millisecond, time.Second, 15 * time.Second, time.Minute} {
		t.Run(tick.String(), func(t *testing.T) {
			e := newEngine(t, gputest.Busy(0), gputest.Full(1))
			e.cfg.Profiling, e.cfg.Tick = true, tick
			s := e.open()
			for i := range 6 {
				r := gputest.Read(t, s)
				if len(r.Readings) != 2 || r.Readings[1].Energy == nil || r.Readings[0].InstancesKnown != (i >= 1) {
					t.Errorf("reading %d: %+v", i, r.Readings)
				}
				e.pass(tick)
			}
		})
	}
}

// The fields of removed instances must no longer be watched, and the fields of the other instances must stay watched.
func TestRepartitioned(t *testing.T) {
	e := newEngine(t, gputest.Busy(0), gputest.Full(1))
	e.cfg.Profiling = true
	e.cfg.Fields = parse(t, "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, x")
	s := e.open()
	instances := func(want ...string) {
		t.Helper()
		gputest.Read(t, s)
		got := slices.DeleteFunc(slices.Sorted(maps.Keys(e.watched())), func(w string) bool { return !strings.HasPrefix(w, "4/") })
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("watched (-want +got):\n%s", diff)
		}
		e.pass(time.Second)
	}
	whole := e.node.GPUs[0]
	instances("4/0/1001", "4/0/1002", "4/1/1001", "4/1/1002")
	part := gputest.Busy(0)
	part.Device.Partitions.Instances, part.Reading.Instances = part.Device.Partitions.Instances[:1], part.Reading.Instances[:1]
	e.node.GPUs[0] = part
	e.write()
	instances("4/0/1001", "4/0/1002")
	e.node.GPUs[0] = whole
	e.write()
	instances("4/0/1001", "4/0/1002", "4/1/1001", "4/1/1002")
	e.node.GPUs[0] = gputest.Full(0)
	e.write()
	instances()
}

// While the engine has no free groups, only some values may be missing. They must appear when groups become free. No
// field may be treated as rejected.
func TestRoom(t *testing.T) {
	for room := range 3 {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			e := newEngine(t, gputest.Busy(0), gputest.Full(1))
			e.fields = fmt.Sprintf("\tfield_groups=%d", 64-room)
			e.cfg.Profiling = true
			e.cfg.Fields = parse(t, "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, x\nDCGM_FI_DEV_GPU_TEMP, gauge, x\nDCGM_FI_DEV_MEM_COPY_UTIL, gauge, x")
			s := e.open()
			for range 3 {
				gputest.Read(t, s)
				if w := e.watched(); w["1/0/204"] != (room > 0) || w["4/0/1002"] != (room > 1) {
					t.Errorf("watched: %v", w)
				}
				e.pass(10 * time.Second)
			}
			if strings.Count(e.logged.String(), "fields=page ") > 1 || !strings.Contains(e.logged.String(), "omitting fields") {
				t.Errorf("logged: %s", e.logged.String())
			}
			e.fields = ""
			e.pass(10 * time.Second)
			e.readAll(s)
			e.pass(time.Second)
			e.readAll(s)
			e.pass(time.Second)
			r := e.readAll(s)
			if !r.Readings[0].InstancesKnown || len(r.Fields.Fields) != 3 || len(page(t, s)["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]) == 0 {
				t.Errorf("with room there are instances %v, fields %+v", r.Readings[0].Instances, r.Fields)
			}
		})
	}
}

// Profiling must begin when another program has released the profiling counters, and continue after instances were
// removed. It must also work if the page already watches the same field.
func TestProfilingLater(t *testing.T) {
	e := newEngine(t, gputest.Busy(0), gputest.Full(1))
	e.cfg.Profiling = true
	e.cfg.Fields = parse(t, "DCGM_FI_PROF_SM_ACTIVE, gauge, x\nDCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, x")
	e.fields = "\tfield_groups=63" // in addition to the watch of the page
	s := e.open()
	gputest.Read(t, s)
	e.fields = ""
	e.pass(10 * time.Second)
	gputest.Read(t, s)
	part := gputest.Busy(0)
	part.Device.Partitions.Instances, part.Reading.Instances = part.Device.Partitions.Instances[:1], part.Reading.Instances[:1]
	e.node.GPUs[0] = part
	e.pass(10 * time.Second)
	gputest.Read(t, s)
	if w := e.watched(); !w["4/0/1002"] || w["4/1/1002"] || !w["4/0/1001"] || w["4/1/1001"] {
		t.Errorf("watched: %v", w)
	}
}

func TestUnprofiled(t *testing.T) {
	e := newEngine(t, gputest.Busy(0))
	s := e.open()
	for range 3 {
		if r := gputest.Read(t, s).Readings[0]; r.InstancesKnown {
			t.Errorf("instances are known: %v", r.Instances)
		}
		e.pass(time.Second)
	}
}
