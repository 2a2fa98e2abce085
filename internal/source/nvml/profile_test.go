package nvml_test

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
)

type profileReader struct {
	*driver
	clock *gputest.Clock
	s     *nvml.Source
}

func newProfileReader(t *testing.T) *profileReader {
	node := gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
	r := &profileReader{newDriver(t, node), gputest.NewClock(), nil}
	r.profiling = true
	r.fields[node.GPUs[0].Device.UUID] = "gpm=1"
	r.metrics("gpm1=10")
	r.s = r.open(r.clock.Now)
	return r
}

func (r *profileReader) metrics(keys string, more ...string) {
	r.lines = append([]string{"health\tgpu=" + r.node.GPUs[0].Device.UUID + "\t" + strings.ReplaceAll(keys, " ", "\t")}, more...)
	r.write()
}

func (r *profileReader) read(after time.Duration) *gpu.Profile {
	r.t.Helper()
	r.clock.Advance(after)
	return gputest.Read(r.t, r.s).Readings[0].Profile
}

// The numbers and units of the metrics are from nvml.h (nvmlGpmMetricId_t): activities are in percent, and rates are in
// MiB/s. An interval needs two samples. The GPU has three video decoders, a JPEG decoder and two optical flow
// accelerators.
func TestProfile(t *testing.T) {
	r := newProfileReader(t)
	r.metrics("gpm1=10 gpm2=20 gpm3=30 gpm5=40 gpm10=50 gpm11=60 gpm12=70 gpm13=80 gpm20=1 gpm21=2 gpm60=3 gpm61=4.5 gpm30=20 gpm31=40 gpm37=0 gpm46=50 gpm50=10 gpm51=100")
	if p := r.read(0); p != nil {
		t.Errorf("profile of the first sample: %+v", p)
	}
	began := gputest.NewClock().Now().Boot
	want := &gpu.Profile{Span: gpu.Span{From: began, To: began + 10*time.Second}}
	for m, v := range map[gpu.ProfileMetric]float64{
		gpu.GraphicsActive: 0.1, gpu.SMActive: 0.2, gpu.SMOccupancy: 0.3, gpu.TensorActive: 0.4, gpu.DRAMActive: 0.5,
		gpu.FP64Active: 0.6, gpu.FP32Active: 0.7, gpu.FP16Active: 0.8, gpu.DecoderActive: 0.2, gpu.JPEGActive: 0.5, gpu.OpticalFlowActive: 0.55,
		gpu.PCIeTransmitRate: 1048576, gpu.PCIeReceiveRate: 2097152, gpu.NVLinkReceiveRate: 3145728, gpu.NVLinkTransmitRate: 4718592,
	} {
		want.Last[m] = &v
		if m < gpu.NumActivities {
			want.Seconds[m] = new(10 * v)
		}
	}
	approximately := cmpopts.EquateApprox(1e-9, 0)
	if diff := cmp.Diff(want, r.read(10*time.Second), approximately); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
	// The next reading is half a minute later and reports a different activity. The integral must depend on the
	// time, not on the number of readings.
	r.metrics("gpm2=50")
	p := r.read(30 * time.Second)
	if got := *p.Seconds[gpu.SMActive]; math.Abs(got-(10*0.2+30*0.5)) > 1e-9 {
		t.Errorf("the SM activity of 2 and 15 s is summed to %v", got)
	}
	if p.Seconds[gpu.TensorActive] != nil || p.Last[gpu.TensorActive] != nil {
		t.Error("a metric that is not supported has a value")
	}
	if again := r.read(time.Second); again != p {
		t.Error("the profile changed between two samples")
	}
	r.read(2 * time.Minute) // this interval is too long for an average
	if p := r.read(10 * time.Second); math.Abs(*p.Seconds[gpu.SMActive]-22) > 1e-9 {
		t.Errorf("SM activity after a gap: %v, want 22 s", *p.Seconds[gpu.SMActive])
	}
}

func TestProfileAbsurd(t *testing.T) {
	r := newProfileReader(t)
	r.read(0)
	r.metrics("gpm1=101.5 gpm2=-0.5 gpm3=1e300 gpm5=100.4 gpm20=-1 gpm21=1e300 gpm30=10 gpm31=101.5 gpm40=-1 gpm41=10")
	p := r.read(10 * time.Second)
	for m, v := range p.Last {
		if (v != nil) != (gpu.ProfileMetric(m) == gpu.TensorActive) {
			t.Errorf("metric %d: %v", m, v)
		}
	}
	if *p.Last[gpu.TensorActive] != 1 {
		t.Errorf("100.4 %% is %v, want 1", *p.Last[gpu.TensorActive])
	}
	r.fault(r.node.GPUs[0].Device.UUID, "nvmlGpmMetricsGet", "blank")
	if p := r.read(10 * time.Second); p == nil || p.Last[gpu.TensorActive] != nil {
		t.Errorf("NaN: %+v", p)
	}
}

// After a GPM call has failed, GPM must not be called for ten minutes. The other values of the GPU must be read during
// this time. After the ten minutes, the sums must continue. No buffer may leak.
func TestProfileFails(t *testing.T) {
	for _, call := range []string{"nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleGet", "nvmlGpmMetricsGet"} {
		t.Run(call, func(t *testing.T) {
			r := newProfileReader(t)
			if call == "nvmlGpmSampleGet" || call == "nvmlGpmMetricsGet" {
				r.metrics("gpm2=50")
				r.read(0)
				r.read(10 * time.Second)
			}
			uuid := r.node.GPUs[0].Device.UUID
			r.fault("*", call, "fail:3")
			if p := r.read(10 * time.Second); p != nil {
				t.Errorf("profile without %s: %+v", call, p)
			}
			calls := r.calls(call)
			if calls == 0 {
				t.Errorf("no call of %s for %s", call, uuid)
			}
			r.metrics("gpm2=50")
			if p := r.read(9 * time.Minute); p != nil || r.calls("nvmlGpmSampleGet") > 3 || r.calls(call) != calls {
				t.Errorf("the driver was called again within ten minutes, profile %+v", p)
			}
			r.read(2 * time.Minute)
			if p := r.read(10 * time.Second); p == nil || *p.Last[gpu.SMActive] != 0.5 {
				t.Errorf("after ten minutes: %+v", p)
			}
			if err := r.s.Close(time.Minute); err != nil {
				t.Fatal(err)
			}
			if call != "nvmlGpmSampleAlloc" { // a failed call is also in the log
				r.wantNoLeak()
			}
		})
	}
}

// A whole GPU must not be sampled if it is older than Hopper, if it is in MIG mode, or if profiling is disabled.
func TestProfileNotOffered(t *testing.T) {
	for name, change := range map[string]func(*profileReader){
		"before Hopper": func(r *profileReader) { clear(r.fields) },
		"switched off":  func(r *profileReader) { r.profiling = false; r.s = r.open(r.clock.Now) },
		"MIG mode": func(r *profileReader) {
			r.node.GPUs[0] = gputest.Divided(0)
			r.fields[r.node.GPUs[0].Device.UUID] = "gpm=1"
			r.write()
			gputest.Read(r.t, r.s) // reads the MIG mode
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newProfileReader(t)
			change(r)
			r.write()
			before := r.calls("nvmlGpmSampleGet")
			for range 3 {
				if p := r.read(10 * time.Second); p != nil {
					t.Errorf("profile: %+v", p)
				}
			}
			if n := r.calls("nvmlGpmSampleGet") - before; n > 0 {
				t.Errorf("%d samples", n)
			}
		})
	}
}

// One MIG instance is busy for half of the time, and the other is always busy. In the fake driver, the tensor cores are
// active for a quarter of the busy time, and the memory for half of it. If a reading is dropped, the next reading must
// contain the profile of the dropped reading once. If only the profile fails, the activity of the instances must be
// known.
func TestProfileOfInstances(t *testing.T) {
	clock, n := gputest.NewClock(), working()
	d := newDriver(t, n)
	d.profiling = true
	s := d.open(clock.Now)
	began := clock.Now().Boot
	gputest.Read(t, s)
	check := func(r gpu.Reading, sm float64, k int) {
		t.Helper()
		p := r.InstanceProfiles[k]
		seconds := (clock.Now().Boot - began).Seconds()
		got := []float64{*p.Seconds[gpu.SMActive], *p.Seconds[gpu.TensorActive], *p.Seconds[gpu.DRAMActive], *p.Last[gpu.TensorActive]}
		want := []float64{sm * seconds, sm * seconds / 4, sm * seconds / 2, sm / 4}
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" || p.Instance != []string{"2", "9"}[k] || p.Span.To != clock.Now().Boot || p.Seconds[gpu.FP64Active] != nil {
			t.Errorf("instance %s in %v (-want +got):\n%s", p.Instance, p.Span, diff)
		}
	}
	for range 3 {
		clock.Advance(time.Second)
		r := gputest.Read(t, s).Readings[0]
		check(r, 0.5, 0)
		check(r, 1, 1)
	}
	readLate(t, d, s, clock, "nvmlDeviceGetMemoryInfo") // this call is made before or after the samples are taken
	clock.Advance(3 * time.Second)
	d.healed()
	report := gputest.Eventually(t, s, "the GPU responds again", func(r gpu.Report, err error) bool {
		return len(r.Readings) == 2 && len(r.Readings[0].InstanceProfiles) == 2
	})
	check(report.Readings[0], 0.5, 0)
	check(report.Readings[0], 1, 1)
}

// A GPM call hangs for fifty readings. These readings must contain all values of the GPU except its profile. The
// numbers of goroutines and buffers must not grow. When the call returns, the sums must continue without the time of
// the hanging call.
func TestProfileHangs(t *testing.T) {
	for _, call := range []string{"nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleGet", "nvmlGpmMetricsGet"} {
		t.Run(call, func(t *testing.T) {
			r := newProfileReader(t)
			r.s = r.openWith(2*time.Second, r.clock.Now)
			r.metrics("gpm2=50")
			later := call == "nvmlGpmSampleGet" || call == "nvmlGpmMetricsGet"
			var before float64
			if later {
				r.read(0)
				before = *r.read(10 * time.Second).Seconds[gpu.SMActive]
			}
			r.fault("*", call, "hang")
			r.clock.Advance(10 * time.Second)
			gputest.Read(t, r.s)
			goroutines, samples := runtime.NumGoroutine(), r.calls("nvmlGpmSampleAlloc")
			for range 50 {
				r.clock.Advance(10 * time.Second)
				*r.node.GPUs[0].Reading.Energy += 1000
				r.write()
				if reading := gputest.Read(t, r.s).Readings[0]; reading.Profile != nil || *reading.Energy != *r.node.GPUs[0].Reading.Energy {
					t.Fatalf("during the call: energy %d, want %d; profile %+v", *reading.Energy, *r.node.GPUs[0].Reading.Energy, reading.Profile)
				}
			}
			// A goroutine of an earlier reading may be about to end, but a leak would show fifty more goroutines.
			if n := runtime.NumGoroutine(); n > goroutines+10 || r.calls("nvmlGpmSampleAlloc") != samples {
				t.Errorf("%d goroutines after 50 readings, %d before; %d buffers, %d before", n, goroutines, r.calls("nvmlGpmSampleAlloc"), samples)
			}
			r.metrics("gpm2=50")
			gputest.Eventually(t, r.s, "the profile is back", func(report gpu.Report, _ error) bool {
				r.clock.Advance(10 * time.Second)
				return len(report.Readings) == 1 && report.Readings[0].Profile != nil
			})
			p := r.read(10 * time.Second)
			if added := *p.Seconds[gpu.SMActive] - before; math.Mod(added, 5) != 0 || added > 50 || *p.Last[gpu.SMActive] != 0.5 {
				t.Errorf("%v s are added after the hanging call", added)
			}
			if err := r.s.Close(time.Minute); err != nil {
				t.Fatal(err)
			}
			if call != "nvmlGpmSampleAlloc" { // the hanging call is also in the log
				r.wantNoLeak()
			}
		})
	}
}

// A GPM call for MIG instances hangs for fifty readings. These readings must contain the energy of the GPU, but not the
// activity of its instances. The numbers of goroutines and buffers must not grow. When the call returns, the activity
// must continue without the time of the hanging call.
func TestInstancesHang(t *testing.T) {
	for _, call := range []string{"nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmMigSampleGet", "nvmlGpmMetricsGet"} {
		t.Run(call, func(t *testing.T) {
			clock, n := gputest.NewClock(), working()
			d := newDriver(t, n)
			d.profiling = true
			s := d.openWith(2*time.Second, clock.Now)
			var before float64
			if call == "nvmlGpmMigSampleGet" || call == "nvmlGpmMetricsGet" {
				readWorking(t, s, clock, n)
				clock.Advance(time.Second)
				before = *gputest.Read(t, s).Readings[0].InstanceProfiles[1].Seconds[gpu.SMActive]
			}
			d.fault(anyGPU, call, "hang")
			clock.Advance(time.Second)
			gputest.Read(t, s)
			goroutines, buffers := runtime.NumGoroutine(), d.calls("nvmlGpmSampleAlloc")
			for range 50 {
				clock.Advance(time.Second)
				*d.node.GPUs[0].Reading.Energy += 1000
				d.write()
				report := gputest.Read(t, s)
				if len(report.Readings) != 2 {
					t.Fatalf("during the call: %d readings, want 2", len(report.Readings))
				}
				r := report.Readings[0]
				if r.Energy == nil || *r.Energy != *d.node.GPUs[0].Reading.Energy || r.InstancesKnown || r.InstanceProfiles != nil {
					t.Fatalf("during the call: energy %v, want %d; instances %v, profiles %v", r.Energy, *d.node.GPUs[0].Reading.Energy, r.Instances, r.InstanceProfiles)
				}
			}
			if n := runtime.NumGoroutine(); n > goroutines+10 || d.calls("nvmlGpmSampleAlloc") != buffers {
				t.Errorf("%d goroutines after 50 readings, %d before; %d buffers, %d before", n, goroutines, d.calls("nvmlGpmSampleAlloc"), buffers)
			}
			d.healed()
			began := clock.Now().Boot
			report := gputest.Eventually(t, s, "the activity is back", func(report gpu.Report, _ error) bool {
				clock.Advance(time.Second)
				return len(report.Readings) == 2 && report.Readings[0].InstancesKnown
			})
			for _, i := range report.Readings[0].Instances {
				if i.From < began {
					t.Errorf("the activity of instance %s covers %v, which begins before %v", i.Instance, i.Span, began)
				}
			}
			p := report.Readings[0].InstanceProfiles[1] // active all the time
			if added := *p.Seconds[gpu.SMActive] - before; added > (clock.Now().Boot - began).Seconds() {
				t.Errorf("%v s are added after the hanging call, which returned %v ago", added, clock.Now().Boot-began)
			}
			if err := s.Close(time.Minute); err != nil {
				t.Fatal(err)
			}
			if call != "nvmlGpmSampleAlloc" { // the hanging call is also in the log
				d.wantNoLeak()
			}
		})
	}
}
