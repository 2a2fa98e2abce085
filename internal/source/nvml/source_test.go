package nvml_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
)

func pair() gputest.Node {
	return gputest.Node{GPUs: []gputest.GPU{gputest.Full(0), gputest.Full(1)}}
}

const anyGPU = "*"

// While a function fails, before or after the driver was opened, no GPU may be lost and every reported value must be
// correct.
func TestOneCallFails(t *testing.T) {
	identity := []string{
		"nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion", "nvmlEventSetCreate",
		"nvmlDeviceGetName", "nvmlDeviceGetSerial", "nvmlDeviceGetBoardPartNumber", "nvmlDeviceGetVbiosVersion",
		"nvmlDeviceGetMinorNumber", "nvmlDeviceGetPciInfo", "nvmlDeviceGetPlatformInfo", "nvmlDeviceGetGpuFabricInfoV",
		"nvmlDeviceGetPowerManagementLimitConstraints", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents",
	}
	values := []string{
		"nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetFieldValues", "nvmlDeviceGetPowerUsage",
		"nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetTemperature", "nvmlDeviceGetUtilizationRates",
		"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetClockInfo", "nvmlDeviceGetComputeRunningProcesses",
		"nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetProcessUtilization",
	}
	enumeration := []string{"nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID", "nvmlInit"}
	for _, code := range []string{"fail:1", "fail:3", "fail:9", "fail:999"} {
		for _, call := range append(identity, values...) {
			t.Run(call+" "+code+" from the start", func(t *testing.T) {
				d := newDriver(t, pair())
				d.fault(anyGPU, call, code)
				wantPair(t, gputest.Read(t, d.open(gputest.NewClock().Now)))
			})
		}
		t.Run(code+" later", func(t *testing.T) {
			d := newDriver(t, pair())
			s := d.open(gputest.NewClock().Now)
			gputest.Read(t, s)
			for _, call := range append(append(enumeration, identity...), values...) {
				d.fault(anyGPU, call, code)
				wantPair(t, gputest.Read(t, s))
				d.healed()
			}
			gputest.Check(t, gputest.Read(t, s), d.node)
		})
	}
}

func wantPair(t *testing.T, report gpu.Report) {
	t.Helper()
	if len(report.Devices) != 2 || len(report.Readings) != 2 {
		t.Fatalf("%d devices, %d readings", len(report.Devices), len(report.Readings))
	}
	for i, d := range report.Devices {
		whole := gputest.Full(i)
		if d.UUID != whole.Device.UUID || d.Serial != "" && d.Serial != whole.Device.Serial {
			t.Errorf("device %d is %+v", i, d)
		}
		for name, read := range map[string]*float64{"temperature": report.Readings[i].Gauges[gpu.Temperature], "SM clock": report.Readings[i].Gauges[gpu.SMClock]} {
			if read != nil && *read == 0 {
				t.Errorf("%s could not be read, but is reported as 0", name)
			}
		}
		if e := report.Readings[i].Energy; e != nil && *e != *whole.Reading.Energy && d.EnergySource == gpu.EnergyCounter {
			t.Errorf("energy is %v, but the counter is %v", *e, *whole.Reading.Energy)
		}
	}
}

// Some calls succeed but return no values.
func TestBlank(t *testing.T) {
	d := newDriver(t, pair())
	for _, call := range []string{"nvmlDeviceGetSerial", "nvmlDeviceGetPlatformInfo", "nvmlDeviceGetGpuFabricInfoV"} {
		d.fault(d.node.GPUs[1].Device.UUID, call, "blank")
	}
	blank := &d.node.GPUs[1].Device
	blank.Serial, blank.Platform, blank.Fabric = "", gpu.Platform{}, nil
	gputest.Check(t, gputest.Read(t, d.open(gputest.NewClock().Now)), d.node)
}

// Values that never change must not be read at every tick.
func TestIdentityIsReadOnce(t *testing.T) {
	clock := gputest.NewClock()
	d := newDriver(t, pair())
	s := d.open(clock.Now)
	for range 5 {
		gputest.Read(t, s)
		clock.Advance(time.Minute)
	}
	want := map[string]int{"nvmlInit": 1, "nvmlDeviceGetHandleByIndex": 2, "nvmlDeviceGetSerial": 2, "nvmlDeviceGetPlatformInfo": 2, "nvmlDeviceGetCount": 5}
	got := make(map[string]int)
	for call := range want {
		got[call] = d.calls(call)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A lost GPU must be retried after increasing pauses, and must not affect the other GPUs. If the GPU returns and is
// lost a second time, the pauses must begin with the shortest pause.
func TestLostIsTriedNowAndThen(t *testing.T) {
	clock := gputest.NewClock()
	d := newDriver(t, pair())
	s := d.open(clock.Now)
	gputest.Read(t, s)
	d.node.GPUs[0].Lost = true
	d.write()
	var tried []int
	handles := 2
	for second := range 50 {
		gputest.Read(t, s)
		if n := d.calls("nvmlDeviceGetHandleByIndex"); n > handles {
			tried, handles = append(tried, second), n
		}
		clock.Advance(time.Second)
	}
	if want := []int{1, 2, 4, 8, 16, 26, 36, 46}; !slices.Equal(tried, want) {
		t.Errorf("a handle was requested after %v seconds, want %v", tried, want)
	}
	if n := d.calls("nvmlDeviceGetSerial"); n != 2 {
		t.Errorf("the serial number was requested %d times, want 2", n)
	}
	for range 2 { // the GPU is lost for less than a second
		d.change(pair())
		clock.Advance(time.Minute)
		gputest.Check(t, gputest.Read(t, s), pair())
		d.node.GPUs[0].Lost = true
		d.write()
		gputest.Read(t, s)
		d.change(pair())
		clock.Advance(time.Second)
		gputest.Check(t, gputest.Read(t, s), pair())
	}
}

// If the serial number could not be read at first, it must be read again. If the GPU had not joined a fabric yet, the
// fabric must be read again.
func TestIdentityIsCompleted(t *testing.T) {
	clock := gputest.NewClock()
	n := pair()
	n.GPUs[0].Device.Fabric.State = "in_progress"
	d := newDriver(t, n)
	d.fault(n.GPUs[1].Device.UUID, "nvmlDeviceGetSerial", "fail:999")
	s := d.open(clock.Now)
	n.GPUs[1].Device.Serial = ""
	gputest.Check(t, gputest.Read(t, s), n)
	d.change(pair())
	gputest.Check(t, gputest.Read(t, s), n) // the GPU has not joined the fabric yet
	clock.Advance(time.Minute)
	gputest.Check(t, gputest.Read(t, s), pair())
}

// If the registration with the fabric ends with an error, the state must be failed, and the cluster must be unknown.
// Both must change when another registration succeeds.
func TestFabricFailed(t *testing.T) {
	clock := gputest.NewClock()
	n := pair()
	n.GPUs[0].Device.Fabric.State = "failed"
	d := newDriver(t, n)
	s := d.open(clock.Now)
	n.GPUs[0].Device.Fabric = &gpu.Fabric{State: "failed", Problems: n.GPUs[0].Device.Fabric.Problems}
	gputest.Check(t, gputest.Read(t, s), n)
	d.change(pair())
	clock.Advance(time.Minute)
	gputest.Check(t, gputest.Read(t, s), pair())
}

// TestRecovery checks the names of the recovery actions in nvml.h (nvmlDeviceGpuRecoveryAction_t). An unknown action
// must be reported as a number. If the action cannot be read, or if all bits of the number are set, the action must be
// unknown.
func TestRecovery(t *testing.T) {
	words := []string{"none", "reset", "reboot", "drain_p2p", "drain_and_reset", "recover_imex", "bus_reset", "system_reboot", "8"}
	clock := gputest.NewClock()
	n := pair()
	d := newDriver(t, n)
	uuid := n.GPUs[0].Device.UUID
	var s *nvml.Source
	check := func(number, want string) {
		t.Helper()
		n.GPUs[0].Reading.Recovery = "" // the next checks compare only the number
		d.fields[uuid] = number
		d.write()
		if s == nil {
			s = d.open(clock.Now)
		}
		clock.Advance(11 * time.Second)
		n.GPUs[0].Reading.Recovery = want
		gputest.Check(t, gputest.Read(t, s), n)
	}
	for number, word := range words {
		check(fmt.Sprintf("recovery_action=%d", number), word)
	}
	check(fmt.Sprintf("recovery_action=%d", uint32(math.MaxUint32)), "")
	check("recovery_action=1", "reset")
	d.fault(uuid, "nvmlDeviceGetFieldValues", "fail:999")
	check("recovery_action=1", "")
	d.healed()
	check("recovery_action=1", "reset")
	check("events=8", "") // the call is no longer supported
}

// The health masks were made by hand from nvml.h. A change after the registration must be reported. If the mask cannot
// be read, the health must be unknown, and the registration must stay known.
func TestFabricHealth(t *testing.T) {
	type problems = []gpu.FabricProblem
	tests := map[string]struct {
		mask uint32 // from the lowest bit: two bits each for bandwidth, recovery, route and timeout; four bits for the configuration; two bits each for partition and manager
		want problems
	}{
		"unsupported":              {0x0, nil},
		"all healthy":              {0x51aa, problems{{Name: "degraded_bandwidth"}, {Name: "route_recovery"}, {Name: "route_unhealthy"}, {Name: "access_timeout_recovery"}, {Name: "incorrect_configuration"}}},
		"no partition, no manager": {0xa000, nil},
		"slow":                     {0x1, problems{{Name: "degraded_bandwidth", Present: true}}},
		"recovering":               {0x6, problems{{Name: "degraded_bandwidth"}, {Name: "route_recovery", Present: true}}},
		"unhealthy":                {0x10, problems{{Name: "route_unhealthy", Present: true}}},
		"timeout":                  {0x40, problems{{Name: "access_timeout_recovery", Present: true}}},
		"unknown value":            {0x3, nil},
		"wrong chassis":            {0x300, problems{{Name: "incorrect_configuration", Present: true, Cause: "chassis_serial"}}},
		"too few links":            {0x500, problems{{Name: "incorrect_configuration", Present: true, Cause: "insufficient_nvlinks"}}},
		"wrong state":              {0x800, problems{{Name: "incorrect_configuration", Present: true, Cause: "gpu_state"}}},
		"unknown configuration":    {0x900, nil},
	}
	clock := gputest.NewClock()
	n := gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
	fabric := n.GPUs[0].Device.Fabric
	d := newDriver(t, n)
	s := d.open(clock.Now)
	gputest.Check(t, gputest.Read(t, s), n)
	for name, tt := range tests {
		fabric.Problems = nil
		d.fields[n.GPUs[0].Device.UUID] = fmt.Sprintf("fabric_health=%d", tt.mask)
		d.write()
		clock.Advance(time.Minute)
		fabric.Problems = tt.want
		t.Run(name, func(t *testing.T) { gputest.Check(t, gputest.Read(t, s), n) })
	}
	d.fault(n.GPUs[0].Device.UUID, "nvmlDeviceGetGpuFabricInfoV", "fail:999")
	clock.Advance(time.Minute)
	fabric.Problems = nil
	gputest.Check(t, gputest.Read(t, s), n)
}

func TestDriver(t *testing.T) {
	d := newDriver(t, pair())
	got := gputest.Read(t, d.open(gputest.NewClock().Now)).Drivers
	want := []gpu.Driver{{Vendor: "NVIDIA", Name: "nvml", Version: "570.86.15", Details: map[string]string{"nvml_version": "12.570.86.15"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("drivers (-want +got):\n%s", diff)
	}
}

// Without a driver, each reading must return an error with the remedy, and must not crash.
func TestNoLibrary(t *testing.T) {
	missing := t.TempDir() + "/libnvidia-ml.so.1"
	notALibrary := t.TempDir() + "/libnvidia-ml.so.1"
	if err := os.WriteFile(notALibrary, []byte("not ELF"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{missing, notALibrary, "libm.so.6"} { // the last path is another library
		s := nvml.New(nvml.Config{LibraryPath: path, CallTimeout: time.Minute, Now: gputest.NewClock().Now})
		for range 3 {
			_, err := s.Read(t.Context())
			if err == nil || !strings.HasPrefix(err.Error(), "open driver: load "+path+": ") || !strings.Contains(err.Error(), "--nvml.library") {
				t.Errorf("error is %v", err)
			}
		}
		if err := s.Close(time.Second); err != nil {
			t.Error(err)
		}
	}
}

// If the kernel driver is not loaded, the program must not call nvmlShutdown, because this call would end the process.
func TestNotLoaded(t *testing.T) {
	n := pair()
	n.Down = true
	d := newDriver(t, n)
	s := d.open(gputest.NewClock().Now)
	_, err := s.Read(t.Context())
	if err == nil || !strings.Contains(err.Error(), "Driver Not Loaded") {
		t.Errorf("error is %v", err)
	}
	if err := s.Close(time.Second); err != nil {
		t.Error(err)
	}
	if n := d.calls("nvmlShutdown"); n != 0 {
		t.Errorf("nvmlShutdown was called %d times", n)
	}
	if _, err := s.Read(t.Context()); err == nil {
		t.Error("a closed source was read")
	}
}

// A GPU that returns only errors and NOT_SUPPORTED must have no reading.
func TestGPUFails(t *testing.T) {
	d := newDriver(t, pair())
	s := d.open(gputest.NewClock().Now)
	gputest.Read(t, s)
	failing := d.node.GPUs[1].Device.UUID
	d.fault(failing, "nvmlDeviceGetMPSComputeRunningProcesses", "fail:3")
	d.fault(failing, "*", "fail:999")
	for range 3 {
		report := gputest.Read(t, s)
		if len(report.Devices) != 2 || len(report.Readings) != 1 {
			t.Errorf("%d devices, %d readings: %+v", len(report.Devices), len(report.Readings), report.Readings)
		}
	}
	d.healed()
	gputest.Check(t, gputest.Read(t, s), d.node)
	want := []string{"all calls on GPU fail", "GPU recovered"}
	for i, line := range strings.Split(strings.TrimSpace(d.logged.String()), "\n") {
		if i >= len(want) || !strings.Contains(line, want[i]) || !strings.Contains(line, failing) {
			t.Errorf("logged: %s", line)
		}
	}
}

// TestCountChanges removes the first GPU from the driver's list, so that the second GPU gets its index.
func TestCountChanges(t *testing.T) {
	clock := gputest.NewClock()
	d := newDriver(t, pair())
	s := d.open(clock.Now)
	gputest.Check(t, gputest.Read(t, s), pair())
	d.fault(d.node.GPUs[0].Device.UUID, "*", "drop")
	report := gputest.Eventually(t, s, "one GPU remains", func(r gpu.Report, err error) bool { return err == nil && len(r.Devices) == 1 })
	if got := report.Devices[0]; got.UUID != gputest.Full(1).Device.UUID || got.Index != 0 || got.Serial != gputest.Full(1).Device.Serial {
		t.Errorf("the remaining GPU is %+v", got)
	}
	d.healed()
	gputest.Check(t, gputest.Eventually(t, s, "both GPUs are reported again", func(r gpu.Report, err error) bool { return len(r.Readings) == 2 }), pair())
	if n := d.calls("nvmlInit"); n != 1 {
		t.Errorf("nvmlInit was called %d times", n)
	}
}

// TestNoGPUTwice removes a GPU from the driver's list while another GPU hangs, so that the slots keep the old indices.
// At the index of the removed GPU, the driver then returns a GPU that is already in another slot. The program must not
// make a second call for this GPU at the same time.
func TestNoGPUTwice(t *testing.T) {
	for name, counted := range map[string]bool{"before the GPUs are counted": false, "afterwards": true} {
		t.Run(name, func(t *testing.T) {
			clock := gputest.NewClock()
			n := gputest.Node{GPUs: []gputest.GPU{gputest.Full(0), gputest.Full(1), gputest.Full(2)}}
			stuck, lost, well := &n.GPUs[0], &n.GPUs[1], &n.GPUs[2]
			d := newDriver(t, n)
			s := d.open(clock.Now)
			gputest.Check(t, gputest.Read(t, s), n)
			stuck.Stuck, lost.Lost = true, true
			d.write()
			one := func(r gpu.Report, err error) bool { return err == nil && len(r.Readings) == 1 && len(r.Devices) == 2 }
			gputest.Check(t, gputest.Eventually(t, gputest.Hasty(s), "one GPU is read", one), n)

			d.fault(lost.Device.UUID, "*", "drop")
			if counted {
				gputest.Check(t, gputest.Eventually(t, s, "the GPUs are counted", one), n)
			}
			asked := strings.Count(d.log(), "nvmlDeviceGetUUID\t"+well.Device.UUID)
			clock.Advance(time.Minute)
			for range 3 {
				gputest.Check(t, gputest.Eventually(t, s, "one GPU is read", one), n)
			}
			if again := strings.Count(d.log(), "nvmlDeviceGetUUID\t"+well.Device.UUID); counted && again != asked {
				t.Errorf("%d calls were made for a GPU that is in another slot", again-asked)
			}

			stuck.Stuck = false
			d.write()
			well.Device.Index = 1
			gputest.Check(t, gputest.Eventually(t, s, "the slots are renumbered", func(r gpu.Report, err error) bool {
				return len(r.Readings) == 2 && r.Devices[1].Index == 1
			}), n)
		})
	}
}

// The GPUs are renumbered or the driver is reloaded, and a GPU's identity cannot be read again. The identity must stay
// known.
func TestNothingIsForgotten(t *testing.T) {
	tests := map[string]func(*driver){
		"renumbered": func(d *driver) { d.fault(d.node.GPUs[0].Device.UUID, "*", "drop") },
		"reloaded":   func(d *driver) { d.node.Loads, d.node.GPUs = d.node.Loads+1, d.node.GPUs[1:] },
	}
	for name, happen := range tests {
		t.Run(name, func(t *testing.T) {
			n := pair()
			d := newDriver(t, n)
			s := d.open(gputest.NewClock().Now)
			gputest.Check(t, gputest.Read(t, s), n)
			for _, call := range []string{"nvmlDeviceGetSerial", "nvmlDeviceGetPciInfo", "nvmlDeviceGetPlatformInfo"} {
				d.fault(anyGPU, call, "fail:999")
			}
			happen(d)
			d.write()
			report := gputest.Eventually(t, s, "one GPU remains", func(r gpu.Report, err error) bool { return err == nil && len(r.Devices) == 1 })
			left := gputest.Node{GPUs: []gputest.GPU{gputest.Full(1)}}
			left.GPUs[0].Device.Index = report.Devices[0].Index
			gputest.Check(t, report, left)
		})
	}
}

// The GPU supports only the first version of the memory call.
func TestMemoryOfAnOldGPU(t *testing.T) {
	n := pair()
	n.GPUs[0].Reading.Gauges[gpu.MemoryReserved] = nil
	d := newDriver(t, n)
	gputest.Check(t, gputest.Read(t, d.open(gputest.NewClock().Now)), n)
}

// One GPU shares the machine's memory. The other has its own memory, but the memory call fails for it.
func TestSharedMemory(t *testing.T) {
	n := pair()
	for i := range n.GPUs {
		gputest.DropGauges(&n.GPUs[i], "nvmlDeviceGetMemoryInfo")
	}
	d := newDriver(t, n)
	d.fault(n.GPUs[1].Device.UUID, "nvmlDeviceGetMemoryInfo", "fail:999")
	d.proc = t.TempDir()
	if err := os.WriteFile(filepath.Join(d.proc, "meminfo"), []byte("MemTotal:       125513856 kB\nMemFree:        1024 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.GPUs[0].Reading.Gauges[gpu.MemoryTotal], n.GPUs[0].Reading.SharesMemory = new(125513856.0*1024), true
	gputest.Check(t, gputest.Read(t, d.open(gputest.NewClock().Now)), n)
}
