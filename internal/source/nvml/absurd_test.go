package nvml_test

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// TestAbsurdNumbers changes every number that the driver reports about one of eight GPUs, before or after the first
// reading. The new number has all bits set, is the largest value of its type, or is NaN. The GPU must still be read,
// and impossible values must be absent.
func TestAbsurdNumbers(t *testing.T) {
	for name, i := range map[string]int{"whole": plain, "in MIG mode": parted, "with a scope": scoped} {
		for _, absurd := range []string{"4294967295", "18446744073709551615", "9223372036854775807", "-1", "x"} {
			t.Run(name+" "+absurd, func(t *testing.T) {
				clock := gputest.NewClock()
				d := newDriver(t, eight())
				s := d.open(clock.Now)
				uuid := d.node.GPUs[i].Device.UUID
				for range 2 {
					d.spoil(uuid, absurd)
					report := gputest.Eventually(t, s, "they answer", answered(uuid))
					others(t, absurd, report, uuid)
					checkNumbers(t, report, uuid)
					d.node.Loads++
					d.write()
					clock.Advance(time.Minute)
					checkEight(t, "healed", gputest.Eventually(t, s, "it answers", complete), none, nothing)
				}
			})
		}
	}
}

func TestAbsurdPartition(t *testing.T) {
	clock := gputest.NewClock()
	d := newDriver(t, eight())
	s := d.open(clock.Now)
	wantEight(t, "well", s, none, nothing)
	d.rewrite(func(state string) string { return strings.ReplaceAll(state, "mig_slices=7", "mig_slices=4294967295") })
	hasty := gputest.Hasty(s)
	for range 3 {
		_, _ = hasty.Read(t.Context())
	}
	d.healed()
	clock.Advance(time.Minute)
	wantEight(t, "healed", s, none, nothing)
}

func checkNumbers(t *testing.T, report gpu.Report, uuid string) {
	t.Helper()
	for _, r := range report.Readings {
		switch {
		case r.UUID != uuid:
		case slices.ContainsFunc(r.Instances, func(s gpu.InstanceSample) bool { return s.SM < 0 || s.SM > 1 }):
			t.Errorf("instances were busy: %+v", r.Instances)
		case r.Energy != nil && *r.Energy < 0:
			t.Errorf("energy is %d mJ", *r.Energy)
		case above(r, gpu.Utilization, 1):
			t.Errorf("utilisation is %v", *r.Gauges[gpu.Utilization])
		case above(r, gpu.Temperature, 1e6), above(r, gpu.Power, 1e6), above(r, gpu.SMClock, 1e15):
			t.Errorf("gauges with impossible numbers: %+v", r)
		case r.RowRemap != nil && max(r.RowRemap.Correctable, r.RowRemap.Uncorrectable) >= math.MaxInt32:
			t.Errorf("remapped rows: %+v", *r.RowRemap)
		case slices.ContainsFunc(r.Contexts, func(c gpu.Context) bool { return c.PID == 0 }):
			t.Errorf("a process has PID 0: %+v", r.Contexts)
		}
	}
}

// spoil replaces every number of a GPU in the state file, except its index and its mode, until the state is written
// again.
func (d *driver) spoil(uuid, number string) {
	d.t.Helper()
	digits := regexp.MustCompile(`\t(index|mig)=\d+|=\d+`)
	d.rewrite(func(state string) string {
		lines := strings.Split(state, "\n")
		for i, line := range lines {
			if !strings.Contains(line, "="+uuid) {
				continue
			}
			lines[i] = digits.ReplaceAllStringFunc(line, func(field string) string {
				if field[0] == '\t' {
					return field
				}
				return "=" + number
			})
		}
		return strings.Join(lines, "\n")
	})
}

// The change lasts until the state is written again.
func (d *driver) rewrite(change func(state string) string) {
	d.t.Helper()
	state, err := os.ReadFile(d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	next := d.path + ".rewritten"
	if err := os.WriteFile(next, []byte(change(string(state))), 0o644); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(next, d.path); err != nil {
		d.t.Fatal(err)
	}
}

func above(r gpu.Reading, g gpu.Gauge, limit float64) bool {
	v := r.Gauges[g]
	return v != nil && (*v < 0 || *v > limit)
}
