package archive

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/store"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestGates checks the conditions under which an hour is refused.
func TestGates(t *testing.T) {
	samples := func(node, metric string, interval time.Duration) fold.Series {
		s := fold.Series{Labels: map[string]string{"__name__": metric, "node": node}}
		for at := noon.Add(time.Second); at.Before(noon.Add(time.Hour)); at = at.Add(interval) {
			s.Samples = append(s.Samples, fold.Sample{Time: at.UnixMilli()})
		}
		return s
	}
	const board = "gpuledger_board_energy_joules_total"
	full := func() *store.Record {
		r := &store.Record{Input: fold.Input{Cluster: "east", Start: noon}, Before: []string{"a", "b", "c"}}
		for _, node := range r.Before {
			r.Series = append(r.Series, samples(node, board, time.Minute))
		}
		return r
	}
	soon := noon.Add(65 * time.Minute)
	tests := []struct {
		name   string
		change func(r *store.Record, g *gates)
		want   string // in the refusal; empty if the hour is accepted
	}{
		{"complete", func(*store.Record, *gates) {}, ""},
		{"nothing after the hour", func(_ *store.Record, g *gates) { g.sampledAfter = false }, "no samples after"},
		{"a cluster that is gone", func(_ *store.Record, g *gates) { g.sampledAfter, g.now = false, noon.Add(50*time.Hour) }, ""},
		{"downsampled", func(r *store.Record, _ *gates) {
			for i, s := range r.Series {
				r.Series[i] = samples(s.Labels["node"], board, 5*time.Minute)
			}
		}, "raw data"},
		{"a node is silent", func(r *store.Record, _ *gates) { r.Series = r.Series[1:] }, ""},
		{"two nodes are silent", func(r *store.Record, _ *gates) { r.Series = r.Series[2:] }, "2 of 3 nodes"},
		{"two of many are silent", func(r *store.Record, _ *gates) {
			r.Series = r.Series[2:]
			for range 60 {
				r.Before = append(r.Before, "c")
			}
		}, ""},
		{"their scrapes fail", func(r *store.Record, _ *gates) {
			r.Series = r.Series[2:]
			r.Up = []fold.Series{samples("a", "up", time.Minute), samples("b", "up", time.Minute)}
		}, ""},
		{"gaps are accepted", func(r *store.Record, g *gates) { r.Series, g.acceptGaps = r.Series[2:], true }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, g := full(), gates{sampledAfter: true, now: soon}
			tt.change(r, &g)
			_, err := check(r, g)
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want an error with %q", err, tt.want)
			}
			if err != nil && !errors.As(err, new(*refusal)) {
				t.Errorf("error %v is not a refusal", err)
			}
		})
	}
}

// TestSpan checks the first and the last hour that are filed.
func TestSpan(t *testing.T) {
	tests := []struct {
		args        []string
		now         time.Time
		first, last time.Time
	}{
		{nil, noon.Add(6 * time.Minute), noon.Add(-time.Hour), noon.Add(-time.Hour)},
		{nil, noon.Add(4 * time.Minute), noon.Add(-2 * time.Hour), noon.Add(-2 * time.Hour)},
		{[]string{"--from=2026-02-28"}, noon.Add(10 * time.Minute), noon.Add(-36 * time.Hour), noon.Add(-time.Hour)},
		{[]string{"once", "--from=2026-03-01T03", "--until=2026-03-01T05:30:00Z"}, noon, noon.Add(-9 * time.Hour), noon.Add(-8 * time.Hour)},
	}
	for _, tt := range tests {
		c, err := Parse(append(tt.args, "--folder=x"))
		if err != nil {
			t.Fatal(err)
		}
		if first, last := c.span(tt.now); !first.Equal(tt.first) || !last.Equal(tt.last) {
			t.Errorf("%q at %s: %s to %s, want %s to %s", tt.args, tt.now, first, last, tt.first, tt.last)
		}
	}
}

// TestParse checks that the error of an invalid argument names the argument.
func TestParse(t *testing.T) {
	for _, args := range [][]string{
		{"twice"}, {"once", "more"}, {"--from=yesterday"}, {"--from=2026-03-02", "--until=2026-03-01"}, {"--log.level=loud"}, {"--store.timeout=1"},
		{"run", "--folder=x", "--until=2026-03-01"}, {"run", "--folder=x", "--again"}, {"--folder=x", "--folder.format=xls"}, {"run", "--folder=x", "--web.max-requests=0"},
	} {
		if _, err := Parse(args); err == nil || !slices.ContainsFunc(args, func(arg string) bool {
			name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			return strings.Contains(err.Error(), name)
		}) {
			t.Errorf("error of %q is %v, want an error that names the argument", args, err)
		}
	}
	if _, err := Parse([]string{"--again"}); err == nil || !strings.Contains(err.Error(), "--folder") {
		t.Errorf("error without a sink is %v, want an error with --folder", err)
	}
}
