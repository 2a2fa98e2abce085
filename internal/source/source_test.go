package source_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// A vendor is a source and an enricher.
type vendor struct {
	name  string
	gpus  []gputest.GPU
	hang  chan struct{} // if hang is set, a Read waits until the channel is closed
	err   error
	reads int
}

func (v *vendor) Read(context.Context) (gpu.Report, error) {
	v.reads++
	if v.hang != nil {
		<-v.hang
	}
	if v.err != nil {
		return gpu.Report{}, v.err
	}
	r := gpu.Report{Drivers: []gpu.Driver{{Vendor: v.name}}, Events: []gpu.DriverEvent{{UUID: v.name}}}
	for _, g := range v.gpus {
		g.Reading.UUID = g.Device.UUID
		r.Devices, r.Readings = append(r.Devices, g.Device), append(r.Readings, g.Reading)
	}
	return r, nil
}

func (v *vendor) Enrich(_ context.Context, r *gpu.Report) error {
	r.Fields = &gpu.FieldPage{Labels: []string{v.name}}
	return v.err
}

func (v *vendor) Close(time.Duration) error { return v.err }

// The first vendor of a group has the stage driver.
type group struct {
	*source.Group
	one, two, extra vendor
	stages          *stage.Set
}

func newGroup() *group {
	g := new(group)
	g.one.name, g.one.gpus = "one", []gputest.GPU{gputest.Full(0), gputest.Plain(1)}
	g.two.name, g.two.gpus = "two", []gputest.GPU{gputest.Bare(2)}
	g.extra.name = "extra"
	now := func() gpu.Instant { return gpu.Instant{Wall: time.Now(), Boot: time.Duration(time.Now().UnixNano())} }
	log := slog.New(slog.DiscardHandler)
	g.stages = stage.New(log, now)
	g.Group = source.NewGroup(source.Config{
		Members:  []source.Member{{Stage: stage.Driver, Source: &g.one}, {Stage: stage.PCI, Source: &g.two}},
		Enricher: &g.extra, Timeout: time.Second, Now: now, Stages: g.stages,
	})
	return g
}

func (g *group) up() (up []string) {
	for _, s := range g.stages.Snapshot() {
		if s.Up {
			up = append(up, s.Name)
		}
	}
	return up
}

func summary(r gpu.Report) (out []string) {
	for _, d := range r.Drivers {
		out = append(out, "driver "+d.Vendor)
	}
	for _, d := range r.Devices {
		out = append(out, d.UUID)
	}
	for _, x := range r.Events {
		out = append(out, "XID "+x.UUID)
	}
	if len(r.Readings) != len(r.Devices) {
		out = append(out, "readings missing")
	}
	if r.Partial {
		out = append(out, "partial")
	}
	return append(out, r.Fields.Labels...)
}

var (
	uuids   = []string{gputest.Full(0).Device.UUID, gputest.Plain(1).Device.UUID, gputest.Bare(2).Device.UUID}
	errDown = errors.New("down")
)

// If a source fails, only its values may be missing from the report. If all sources fail, Read must return an error,
// but the report must still contain the field page.
func TestGroup(t *testing.T) {
	tests := map[string]struct {
		one, two, extra error
		want, up        []string
		err             string
	}{
		"all":           {want: []string{"driver one", "driver two", uuids[0], uuids[1], uuids[2], "XID one", "XID two", "extra"}, up: []string{"driver", "dcgm", "pci"}},
		"one down":      {one: errDown, want: []string{"driver two", uuids[2], "XID two", "partial", "extra"}, up: []string{"dcgm", "pci"}},
		"two down":      {two: errDown, want: []string{"driver one", uuids[0], uuids[1], "XID one", "partial", "extra"}, up: []string{"driver", "dcgm"}},
		"enricher down": {extra: errDown, want: []string{"driver one", "driver two", uuids[0], uuids[1], uuids[2], "XID one", "XID two", "extra"}, up: []string{"driver", "pci"}},
		"both down":     {one: errDown, two: errors.New("gone"), want: []string{"extra"}, up: []string{"dcgm"}, err: "down\ngone"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := newGroup()
			g.one.err, g.two.err, g.extra.err = tt.one, tt.two, tt.extra
			r, err := g.Read(t.Context())
			if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Errorf("error is %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, summary(r)); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.up, g.up()); diff != "" {
				t.Errorf("stages up (-want +got):\n%s", diff)
			}
		})
	}
}

// A source that hangs must delay the other sources only once. A later Read must return the late report of this source.
// Until the hanging Read has ended, no other Read of this source may begin.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup()
		g.one.hang = make(chan struct{})
		both := []string{"driver one", "driver two", uuids[0], uuids[1], uuids[2], "XID one", "XID two", "extra"}
		for i, waits := range []time.Duration{time.Second, 0, 0, 0} {
			began := time.Now()
			r, err := g.Read(t.Context())
			want := []string{"driver two", uuids[2], "XID two", "partial", "extra"}
			if i == 3 {
				want = both
			}
			if diff := cmp.Diff(want, summary(r)); diff != "" || err != nil || time.Since(began) != waits {
				t.Errorf("read %d took %v, error %v (-want +got):\n%s", i, time.Since(began), err, diff)
			}
			if i == 2 {
				close(g.one.hang)
				synctest.Wait()
			}
		}
		if d := g.stages.Snapshot()[0].Duration; d != time.Second {
			t.Errorf("the late read took %v according to its stage, want 1s", d)
		}
		if g.one.reads != 1 || g.two.reads != 4 {
			t.Errorf("%d and %d reads", g.one.reads, g.two.reads)
		}
		r, err := g.Read(t.Context())
		if diff := cmp.Diff(both, summary(r)); diff != "" || err != nil {
			t.Errorf("then: error %v (-want +got):\n%s", err, diff)
		}
	})
}

// If the context has ended, Read must return an empty report and not mark a source as failed.
func TestEnded(t *testing.T) {
	g := newGroup()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Read(ctx); !errors.Is(err, context.Canceled) || len(g.stages.Snapshot()) > 0 {
		t.Errorf("error %v, stages %v", err, g.stages.Snapshot())
	}
}

// A source without GPUs must have no stage and must not be read. After the first successful read, it must always be
// read, because its driver may be reloaded.
func TestNeeded(t *testing.T) {
	one, two := new(vendor{name: "one"}), new(vendor{name: "two", err: errDown})
	oneHas, twoHas := false, false
	now := func() gpu.Instant { return gpu.Instant{Boot: time.Hour} }
	stages := stage.New(slog.New(slog.DiscardHandler), now)
	g := source.NewGroup(source.Config{
		Members: []source.Member{
			{Stage: stage.Driver, Source: one, Needed: func() bool { return oneHas }},
			{Stage: stage.AMDGPU, Source: two, Needed: func() bool { return twoHas }},
		},
		Timeout: time.Minute, Now: now, Stages: stages,
	})
	steps := []struct {
		name           string
		oneHas, twoHas bool
		err            string
		stages, reads  int
	}{
		{"no GPU", false, false, "no GPU of a supported vendor", 0, 0},
		{"a GPU that fails", false, true, "down", 1, 1},
		{"it is removed", false, false, "no GPU of a supported vendor", 0, 1},
		{"the other GPU", true, false, "", 1, 1},
		{"its driver is unloaded", false, false, "", 1, 1},
	}
	for _, step := range steps {
		oneHas, twoHas = step.oneHas, step.twoHas
		_, err := g.Read(t.Context())
		if (err == nil) != (step.err == "") || err != nil && err.Error() != step.err {
			t.Errorf("%s: error is %v, want %q", step.name, err, step.err)
		}
		if n := len(stages.Snapshot()); n != step.stages || two.reads != step.reads {
			t.Errorf("%s: %d stages and %d reads of the second source, want %d and %d", step.name, n, two.reads, step.stages, step.reads)
		}
	}
	if one.reads != 2 {
		t.Errorf("%d reads of the first source, want 2", one.reads)
	}
}

// A board must be listed only once if two sources report it.
func TestTwice(t *testing.T) {
	g := newGroup()
	g.two.gpus = append(g.two.gpus, gputest.Plain(1))
	want := []string{"driver one", "driver two", uuids[0], uuids[1], uuids[2], "XID one", "XID two", "extra"}
	if diff := cmp.Diff(want, summary(gputest.Read(t, g))); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestClose(t *testing.T) {
	g := newGroup()
	g.one.err, g.extra.err = errDown, errors.New("stuck")
	if err := g.Close(time.Second); err == nil || !strings.Contains(err.Error(), "down") || !strings.Contains(err.Error(), "stuck") {
		t.Errorf("error is %v", err)
	}
}
