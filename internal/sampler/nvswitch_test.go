package sampler_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Each error of an NVSwitch must count once. One error occurs while no driver responds. Another error is read again
// after a restart. The last error has the code of an earlier error that is no longer in the log.
func TestNVSwitches(t *testing.T) {
	w := newWorld(t)
	at := w.instant().Wall.Add(-10 * time.Minute)
	const address = "0000:c1:00.0"
	log := []gpu.KernelError{
		{Address: address, Code: 20034, Severity: gpu.SeverityFatal, Sequence: 4, At: at},
		{Address: address, Code: 12028, Severity: gpu.SeverityNonFatal, Sequence: 5, At: at},
		{Address: address, Code: 12028, Severity: gpu.SeverityNonFatal, Sequence: 6, At: at.Add(time.Second)},
		{Address: address, Code: 12028, Severity: gpu.SeverityFatal, Sequence: 7, At: at},
		{Address: "0000:c0:00.0", Code: 12028, Severity: gpu.SeverityNonFatal, Sequence: 8, At: at},
	}
	check := func(snap *gpu.Snapshot, want ...uint64) {
		t.Helper()
		expected := []gpu.NVSwitchErrors{
			{PCIBusID: "0000:c0:00.0", Code: 12028, Severity: "non_fatal", Count: want[0], Since: at, Records: 9},
			{PCIBusID: address, Code: 12028, Severity: "fatal", Count: want[1], Since: at, Records: 8},
			{PCIBusID: address, Code: 12028, Severity: "non_fatal", Count: want[2], Since: at, Records: 7},
			{PCIBusID: address, Code: 20034, Severity: "fatal", Count: want[3], Since: at, Records: want[4]},
		}
		if diff := cmp.Diff(expected, snap.NVSwitches); diff != "" {
			t.Errorf("errors (-want +got):\n%s", diff)
		}
	}
	w.kernelLog = slices.Clone(log)
	w.down = errors.New("no driver")
	s := w.sampler()
	check(w.ticks(s, 2), 1, 1, 2, 1, 5)
	w.kernelLog = append(log[1:], gpu.KernelError{Address: address, Code: 20034, Severity: gpu.SeverityFatal, Sequence: 9, At: at.Add(time.Minute)})
	check(w.ticks(w.restarted(s), 2), 1, 1, 2, 2, 10)
}
