// Package gputest provides a test suite for sources of GPU readings. The suite describes a machine
// as a [Node], with types of package gpu. The test of a source provides a driver that behaves like
// this node. The source must report exactly the values that the node contains.
package gputest

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Source is the source under test.
type Source interface {
	Read(ctx context.Context) (gpu.Report, error)
}

// Open starts a driver that behaves like the node n. It returns a source that reads this driver and uses the clock now.
// The function change makes the driver behave like another node. Open registers its cleanup with t.Cleanup. The source
// must not wait for a slow GPU for longer than a second.
type Open func(t *testing.T, n Node, now gpu.Clock) (s Source, change func(Node))

// Node describes a machine by the values that a source must report.
type Node struct {
	// Down is set while no driver is loaded.
	Down bool
	// Loads is the number of earlier loads of the driver. It increases when the driver is reloaded.
	Loads int
	GPUs  []GPU // GPUs in the order in which the driver lists them
}

// GPU describes one GPU. An empty or nil value is not reported.
type GPU struct {
	Device gpu.Device
	// Reading is the current reading, without the UUID and the time. Its field Instances contains the activity of the
	// instances, which is constant. A source may need several readings to measure this activity.
	Reading gpu.Reading
	// SampledAt is the time at which the driver took the samples of the reading. A source may report a different time.
	SampledAt time.Time
	Lost      bool
	// Stuck is set while calls for the GPU hang.
	Stuck bool
}

// Run runs all tests of the suite.
func Run(t *testing.T, open Open) { Limits{}.Run(t, open) }

// Limits adapts the suite to a vendor if the vendor's GPUs report fewer values than the tests
// describe.
type Limits struct {
	// GPU removes values that no GPU of the vendor reports. It must not change data behind the pointers of its
	// argument. It may be nil.
	GPU func(*GPU)
	// Without contains the names of tests that do not apply to the vendor, with the reasons.
	Without map[string]string
}

type contract struct {
	limits Limits
	vendor Open
}

func (c contract) open(t *testing.T, n Node, now gpu.Clock) (Source, func(Node)) {
	s, change := c.vendor(t, c.limits.node(n), now)
	return s, func(n Node) { change(c.limits.node(n)) }
}

func (c contract) check(t *testing.T, report gpu.Report, n Node) {
	t.Helper()
	Check(t, report, c.limits.node(n))
}

func (l Limits) node(n Node) Node {
	if l.GPU == nil {
		return n
	}
	n.GPUs = slices.Clone(n.GPUs)
	for i := range n.GPUs {
		l.GPU(&n.GPUs[i])
	}
	return n
}

// Run runs the tests of the suite that apply to the vendor.
func (l Limits) Run(t *testing.T, open Open) {
	tests := map[string]func(*testing.T, contract){
		"reports present values":            testExact,
		"reports nil for absent values":     testAbsent,
		"energy is exact":                   testEnergy,
		"the duration of the energy call":   testTook,
		"samples are reported once":         testSamples,
		"GPU in MIG mode":                   testMIG,
		"activity of instances":             testInstances,
		"a lost GPU does not affect others": testLost,
		"a stuck GPU does not delay others": testStuck,
		"continues after a driver reload":   testReload,
		"continues after the driver's loss": testDown,
	}
	for name := range l.Without {
		if tests[name] == nil {
			t.Errorf("Limits.Without names the test %q, which does not exist", name)
		}
		delete(tests, name)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, contract{l, open}) })
	}
}

// Clock advances only when Advance is called. The wall clock starts at the real time, because drivers use the real time
// for the timestamps of samples.
type Clock struct {
	mu  sync.Mutex
	now gpu.Instant
}

// NewClock returns a clock.
func NewClock() *Clock {
	return &Clock{now: gpu.Instant{Wall: time.Now().Truncate(time.Microsecond), Boot: time.Hour}}
}

// Now returns the current time. A source can use it as its [gpu.Clock].
func (c *Clock) Now() gpu.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance advances both clocks.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Wall = c.now.Wall.Add(d)
	c.now.Boot += d
}

// Check fails the test unless the report matches the node. The report must contain a device for each GPU that is not
// lost, and a reading for each GPU that is neither lost nor stuck.
func Check(t *testing.T, report gpu.Report, n Node) {
	t.Helper()
	checkOnce(t, report)
	var devices []gpu.Device
	var readings []gpu.Reading
	for _, g := range n.GPUs {
		if g.Lost {
			continue
		}
		devices = append(devices, g.Device)
		if !g.Stuck {
			g.Reading.UUID = g.Device.UUID
			readings = append(readings, g.Reading)
		}
	}
	opts := cmp.Options{
		cmpopts.EquateEmpty(), cmpopts.IgnoreTypes(gpu.Span{}),
		cmpopts.SortSlices(func(a, b gpu.Device) bool { return a.UUID < b.UUID }),
	}
	// cmp.Diff is slow, so equal values are detected before it is called.
	if !reflect.DeepEqual(devices, report.Devices) {
		if diff := cmp.Diff(devices, report.Devices, opts); diff != "" {
			t.Errorf("devices (-want +got):\n%s", diff)
		}
	}
	if want, got := compared(readings), compared(report.Readings); !reflect.DeepEqual(want, got) {
		if diff := cmp.Diff(want, got, opts); diff != "" {
			t.Errorf("readings (-want +got):\n%s", diff)
		}
	}
	for _, r := range report.Readings {
		checkTimes(t, r)
		for _, want := range readings {
			if want.UUID == r.UUID {
				checkInstances(t, want, r)
			}
		}
	}
}

// A reading without the activity of instances is accepted.
func checkInstances(t *testing.T, want, got gpu.Reading) {
	t.Helper()
	if !got.InstancesKnown {
		return
	}
	if !want.InstancesKnown {
		t.Errorf("the activity of the instances of %s is reported although it is unknown: %+v", got.UUID, got.Instances)
	}
	reported := make(map[string]float64)
	for _, s := range got.Instances {
		if s.Len() <= 0 || s.From <= 0 || s.To > got.At.Boot+time.Second {
			t.Errorf("instance %s has span %v, but the time is %v", s.Instance, s.Span, got.At.Boot)
		}
		reported[s.Instance] = s.SM
	}
	busy := make(map[string]float64)
	for _, s := range want.Instances {
		busy[s.Instance] = s.SM
	}
	if diff := cmp.Diff(busy, reported); diff != "" {
		t.Errorf("instances of %s (-want +got):\n%s", got.UUID, diff)
	}
}

func checkTimes(t *testing.T, r gpu.Reading) {
	t.Helper()
	if r.At.IsZero() {
		t.Error("reading without a time")
	}
	if s := r.Sampled; r.SamplesKnown && (s.From > s.To || s.To > r.At.Boot+time.Second) {
		t.Errorf("samples cover %v, but the time is %v", s, r.At.Boot)
	}
	for _, s := range r.Samples {
		if s.Len() <= 0 || s.Overlap(r.Sampled) != s.Len() {
			t.Errorf("sample covers %v, outside of %v", s.Span, r.Sampled)
		}
	}
}

func checkOnce(t *testing.T, report gpu.Report) {
	t.Helper()
	seen := make(map[string]bool)
	for _, d := range report.Devices {
		if seen[d.UUID] {
			t.Errorf("the report contains two devices with UUID %s", d.UUID)
		}
		seen[d.UUID] = true
	}
	clear(seen)
	for _, r := range report.Readings {
		if seen[r.UUID] {
			t.Errorf("the report contains two readings of %s", r.UUID)
		}
		seen[r.UUID] = true
	}
}

// compared returns the readings, sorted by UUID, without the values that Check does not compare.
func compared(readings []gpu.Reading) []gpu.Reading {
	all := slices.SortedFunc(slices.Values(readings), func(a, b gpu.Reading) int { return strings.Compare(a.UUID, b.UUID) })
	for i := range all {
		r := &all[i]
		r.At, r.PowerSum, r.Throttled, r.Health, r.Details = gpu.Instant{}, nil, nil, nil, nil
		r.Instances, r.InstancesKnown = nil, false
		r.Sampled, r.Samples = gpu.Span{}, slices.Clone(r.Samples)
		for k := range r.Samples {
			r.Samples[k].Span = gpu.Span{}
		}
	}
	return all
}

// Read reads the source. It fails the test if the source returns an error or reports a GPU twice.
func Read(t *testing.T, s Source) gpu.Report {
	t.Helper()
	report, err := s.Read(t.Context())
	if err != nil {
		t.Fatal("Read:", err)
	}
	checkOnce(t, report)
	return report
}

// HangTimeout is the timeout for events that must happen. It is long, so that a busy machine does not exceed it.
const HangTimeout = 5 * time.Minute

// Hasty returns a source that does not wait for hung calls. The first Read has a short timeout, and each further Read
// doubles it. On a busy machine, other calls may also time out, so tests use [Eventually] to wait for a complete
// report.
func Hasty(s Source) Source { return &hasty{s, 20 * time.Millisecond} }

type hasty struct {
	Source
	wait time.Duration
}

func (h *hasty) Read(ctx context.Context) (gpu.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, h.wait)
	defer cancel()
	h.wait *= 2
	return h.Source.Read(ctx)
}

// Eventually reads the source until ok accepts the report, and returns this report.
func Eventually(t *testing.T, s Source, want string, ok func(gpu.Report, error) bool) gpu.Report {
	t.Helper()
	deadline := time.After(HangTimeout)
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for {
		report, err := s.Read(t.Context())
		checkOnce(t, report)
		if ok(report, err) {
			return report
		}
		select {
		case <-deadline:
			t.Fatalf("timeout: waited %v until %s; last report: %+v, %v", HangTimeout, want, report, err)
		case <-retry.C:
		}
	}
}
