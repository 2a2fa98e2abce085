// Package gputest is the contract that every source of GPU readings keeps,
// written as a test suite. It speaks the vocabulary of package gpu only: a test
// describes a [Node], the source's own test makes a driver that is such a node,
// and the source must report exactly what was described.
package gputest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Source is what is tested.
type Source interface {
	Read(ctx context.Context) (gpu.Report, error)
}

// Open starts a driver that is the given node and returns a source that reads it
// with the given clock, and a function that makes the driver another node under
// the open source. It cleans up with t.Cleanup. The source must go on without a
// slow GPU after a second at most.
type Open func(t *testing.T, n Node, now gpu.Clock) (s Source, change func(Node))

// Node describes a machine by what a source must report of it.
type Node struct {
	// Down is set while no driver is loaded.
	Down bool
	// Loads counts how often the driver was loaded before; after a change to a
	// greater number the driver is another one.
	Loads int
	GPUs  []GPU // in the driver's order
}

// GPU describes one GPU. What is empty or nil is what this GPU does not have.
type GPU struct {
	Device gpu.Device
	// Reading is what the GPU says now, but for its UUID and time. Instances are how
	// busy they always are; a source may need several readings to tell.
	Reading gpu.Reading
	// SampledAt is when the driver took the samples of the reading. What time a
	// source says that they cover is not described, but checked.
	SampledAt time.Time
	// Lost is set once the GPU fell off the bus.
	Lost bool
	// Stuck is set while no call on the GPU returns.
	Stuck bool
}

// Run runs the whole contract.
func Run(t *testing.T, open Open) {
	tests := map[string]func(*testing.T, Open){
		"reports what is there":           testExact,
		"reports nil for what is not":     testAbsent,
		"energy is exact":                 testEnergy,
		"samples are given once":          testSamples,
		"a GPU in MIG mode":               testMIG,
		"instances that work":             testInstances,
		"a lost GPU leaves the others":    testLost,
		"a stuck GPU delays no other":     testStuck,
		"goes on after a driver reload":   testReload,
		"goes on after the driver's loss": testDown,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// Clock is a clock that stands still between calls of Advance. Its wall clock
// starts at the true time, which drivers stamp their samples with.
type Clock struct {
	mu  sync.Mutex
	now gpu.Instant
}

// NewClock returns a clock.
func NewClock() *Clock {
	return &Clock{now: gpu.Instant{Wall: time.Now().Truncate(time.Microsecond), Boot: time.Hour}}
}

// Now is a [gpu.Clock].
func (c *Clock) Now() gpu.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves both clocks on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Wall = c.now.Wall.Add(d)
	c.now.Boot += d
}

// Check fails the test unless the report is exactly the node: a device for each
// GPU that is not lost, a reading for each that is not stuck either.
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
		cmpopts.EquateEmpty(), cmpopts.IgnoreFields(gpu.Reading{}, "At", "Sampled", "Instances", "InstancesKnown"),
		cmpopts.IgnoreTypes(gpu.Span{}), byUUID(),
	}
	if diff := cmp.Diff(devices, report.Devices, opts); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(readings, report.Readings, opts); diff != "" {
		t.Errorf("readings (-want +got):\n%s", diff)
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

// checkInstances fails the test unless it is not known how busy a GPU's instances are,
// or all that is said of them is so.
func checkInstances(t *testing.T, want, got gpu.Reading) {
	t.Helper()
	if !got.InstancesKnown {
		return
	}
	if !want.InstancesKnown {
		t.Errorf("instances of %s are known: %+v", got.UUID, got.Instances)
	}
	told := make(map[string]float64)
	for _, s := range got.Instances {
		if s.Len() <= 0 || s.From <= 0 || s.To > got.At.Boot+time.Second {
			t.Errorf("instance %s was busy in %v, now is %v", s.Instance, s.Span, got.At.Boot)
		}
		told[s.Instance] = s.SM
	}
	busy := make(map[string]float64)
	for _, s := range want.Instances {
		busy[s.Instance] = s.SM
	}
	if diff := cmp.Diff(busy, told); diff != "" {
		t.Errorf("instances of %s (-want +got):\n%s", got.UUID, diff)
	}
}

// checkTimes fails the test unless a reading is of some time, and what was sampled is
// of a time before it.
func checkTimes(t *testing.T, r gpu.Reading) {
	t.Helper()
	if r.At.IsZero() {
		t.Error("a reading has no time")
	}
	if s := r.Sampled; r.SamplesKnown && (s.From > s.To || s.To > r.At.Boot+time.Second) {
		t.Errorf("samples of %v, now is %v", s, r.At.Boot)
	}
	for _, s := range r.Samples {
		if s.Len() <= 0 || s.Overlap(r.Sampled) != s.Len() {
			t.Errorf("a sample of %v, all samples are of %v", s.Span, r.Sampled)
		}
	}
}

// checkOnce fails the test if a GPU is reported twice.
func checkOnce(t *testing.T, report gpu.Report) {
	t.Helper()
	seen := make(map[string]bool)
	for _, d := range report.Devices {
		if seen[d.UUID] {
			t.Errorf("two devices are %s", d.UUID)
		}
		seen[d.UUID] = true
	}
	clear(seen)
	for _, r := range report.Readings {
		if seen[r.UUID] {
			t.Errorf("two readings are of %s", r.UUID)
		}
		seen[r.UUID] = true
	}
}

func byUUID() cmp.Option {
	return cmp.Options{
		cmpopts.SortSlices(func(a, b gpu.Device) bool { return a.UUID < b.UUID }),
		cmpopts.SortSlices(func(a, b gpu.Reading) bool { return a.UUID < b.UUID }),
	}
}

// Read reads the source and fails the test on an error, or if a GPU is there
// twice.
func Read(t *testing.T, s Source) gpu.Report {
	t.Helper()
	report, err := s.Read(t.Context())
	if err != nil {
		t.Fatal("Read:", err)
	}
	checkOnce(t, report)
	return report
}

// Patience is the time limit of what should happen. It detects a hang, and a busy machine
// does not reach it.
const Patience = 5 * time.Minute

// Hasty returns a source that does not wait for calls that hang: the first Read waits for a
// moment, each further one twice as long. On a busy machine other calls may be late, too, so
// that a test waits with [Eventually] for their readings.
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

// Eventually reads the source until a report is as wanted, and returns it.
func Eventually(t *testing.T, s Source, want string, ok func(gpu.Report, error) bool) gpu.Report {
	t.Helper()
	deadline := time.After(Patience)
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
			t.Fatalf("timeout: waited %v until %s; last report: %+v, %v", Patience, want, report, err)
		case <-retry.C:
		}
	}
}
