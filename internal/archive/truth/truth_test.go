package truth_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/truth"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/fatal"
)

// began is the time of the first scrape in the simulations.
var began = time.Date(2026, 10, 1, 12, 30, 0, 0, time.UTC)

// file writes a row every ten seconds. Each GPU uses 100 W. Pod a always holds GPU-1. Pod b uses 40 W of GPU-1 from
// minute 40 to minute 50, and is listed until minute 51.
func file(t *testing.T, minutes int, change func(second int, row string) string) string {
	t.Helper()
	var rows strings.Builder
	for s := 0; s <= 60*minutes; s += 10 {
		b := ""
		if used := min(s, 50*60) - 40*60; used > 0 && s <= 51*60 {
			b = fmt.Sprintf(`,{"kind":"pod","scope":"ml","name":"b","uid":"u-b","part":"c","energy_mj":%d}`, 40_000*used)
		}
		row := fmt.Sprintf(`{"time_unix_ns":%d,"gpus":[{"uuid":"GPU-1","energy_mj":%d,"peak_mw":140000,"containers":[{"kind":"pod","scope":"ml","name":"a","uid":"u-a","part":"c","energy_mj":%d,"held_ms":%d}%s]},`+
			`{"uuid":"GPU-2","energy_mj":%d,"peak_mw":100000,"containers":[{"kind":"unit","scope":"slurm","name":"7","uid":"slurm/7","energy_mj":%d}]}]}`,
			began.Add(time.Duration(s)*time.Second).UnixNano(), 100_000*s, 60_000*s, 1000*s, b, 100_000*s, 100_000*s)
		if change != nil {
			row = change(s, row)
		}
		if row != "" {
			rows.WriteString(row + "\n")
		}
	}
	path := filepath.Join(t.TempDir(), "truth.jsonl")
	check(t, os.WriteFile(path, []byte(rows.String()), 0o600))
	return path
}

func hour(n int) truth.Period {
	start := began.Truncate(24 * time.Hour).Add(time.Duration(n) * time.Hour)
	return truth.Period{From: start, Until: start.Add(time.Hour), Scrape: time.Minute}
}

// At the start or end of an hour, the last scrape may be up to 70 seconds old.
func TestRead(t *testing.T) {
	path := file(t, 100, nil)
	const ml, w = "ml", int64(1000)
	a, b := truth.Owner{Kind: truth.Pod, Scope: ml, Name: "a", UID: "u-a"}, truth.Owner{Kind: truth.Pod, Scope: ml, Name: "b", UID: "u-b"}
	unit := truth.Owner{Kind: truth.Unit, Scope: "slurm", Name: "7"}
	between := func(power, least, is, most int64) truth.Range {
		return truth.Range{power * w * is, power * w * least, power * w * most}
	}
	held := func(least, is, most int64) truth.Range { return truth.Range{1000 * is, 1000 * least, 1000 * most} }
	for _, tt := range []struct {
		period truth.Period
		want   map[string]*truth.GPU
	}{
		// In the first hour, the first scrape may be late. The pods begin in this hour, so the use of each pod may be
		// wrong by 12 seconds at the highest power.
		{hour(12), map[string]*truth.GPU{
			"GPU-1": {between(100, 1800-70-70, 1800, 1800), map[truth.Owner]truth.Use{a: {
				between(60, 1800-70-70, 1800, 1800).Widen(12 * 140 * w), held(1800-70-70, 1800, 1800).Widen(12_000),
			}}},
			"GPU-2": {between(100, 1800-70-70, 1800, 1800), map[truth.Owner]truth.Use{unit: {between(100, 1800-70-70, 1800, 1800).Widen(12 * 100 * w), truth.Range{}.Widen(12_000)}}},
		}},
		// Pod b begins and ends in this hour (minutes 40 and 50 of the simulation).
		{hour(13), map[string]*truth.GPU{
			"GPU-1": {between(100, 3600-70, 3600, 3600+70), map[truth.Owner]truth.Use{
				a: {between(60, 3600-70, 3600, 3600+70), held(3600-70, 3600, 3600+70)},
				b: {between(40, 600, 600, 600).Widen(2 * 12 * 140 * w), truth.Range{}.Widen(24_000)},
			}},
			"GPU-2": {between(100, 3600-70, 3600, 3600+70), map[truth.Owner]truth.Use{unit: {between(100, 3600-70, 3600, 3600+70), truth.Range{}}}},
		}},
	} {
		got, err := truth.Read(path, tt.period)
		check(t, err)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("from %s (-want +got):\n%s", tt.period.From, diff)
		}
	}
}

// A file must be rejected if a row, the start or the end is missing.
func TestMissing(t *testing.T) {
	without := func(from, to int) func(int, string) string {
		return func(s int, row string) string {
			if s >= from && s < to {
				return ""
			}
			return row
		}
	}
	for _, tt := range []struct {
		from, to int
		hour     int
		want     string
	}{
		{3000, 3010, 13, "has no row between 2026-10-01T13:19:50Z and 2026-10-01T13:20:10Z: its interval is 10s"},
		{0, 2000, 13, "begins at 2026-10-01T13:03:20Z: select a later period with --from"},
		{5000, 9000, 13, "ends at 2026-10-01T13:53:10Z: select an earlier period with --to"},
		{0, 9000, 13, "has no rows"},
		{0, 100, 13, ""}, // the file begins before the hour
	} {
		_, err := truth.Read(file(t, 100, without(tt.from, tt.to)), hour(tt.hour))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("without rows from %d to %d s: error %v, want %q", tt.from, tt.to, err, tt.want)
		}
	}
	if _, err := truth.Read(file(t, 100, func(s int, row string) string { return strings.TrimSuffix(row, "}") }), hour(13)); err == nil {
		t.Error("invalid rows are accepted")
	}
}

// TestSimnode compares the true use in a simulated node's file with the node's own history.
func TestSimnode(t *testing.T) {
	sc, err := simnode.Lookup("timeslice")
	check(t, err)
	dir, err := os.MkdirTemp("", "sim")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	start := gpu.Instant{Wall: began, Boot: time.Hour}
	n, err := simnode.Open(dir, sc, start)
	check(t, err)
	t.Cleanup(func() { check(t, n.Close()) })
	for s := range 100 {
		past := time.Duration(s) * time.Second
		check(t, n.Step(gpu.Instant{Wall: start.Wall.Add(past), Boot: start.Boot + past}))
	}
	history, err := simnode.ReadTruth(filepath.Join(n.Dir(), "truth.jsonl"))
	check(t, err)
	p := truth.Period{From: began.Add(20 * time.Second), Until: began.Add(80 * time.Second)}
	got, err := truth.Read(filepath.Join(n.Dir(), "truth-10s.jsonl"), p)
	check(t, err)
	owners := 0
	for _, g := range history[800].GPUs {
		before := history[200].GPU(g.UUID)
		if want := int64(g.Energy - before.Energy); got[g.UUID] == nil || got[g.UUID].Energy.True != want {
			t.Errorf("%s: %+v, want %d mJ", g.UUID, got[g.UUID], want)
		}
		for owner, energy := range g.Since(before) {
			use := got[g.UUID].Owners[truth.Owner{Kind: truth.Pod, Scope: owner.Scope, Name: owner.Name, UID: owner.UID}]
			if use.Energy.True != int64(energy) || use.Held.True != 60_000 || !use.Energy.Contains(int64(energy)) {
				t.Errorf("%s on %s: %+v, want %d mJ in 60 s", owner.Name, g.UUID, use, energy)
			}
			owners++
		}
	}
	if owners != 6 {
		t.Errorf("%d owners", owners)
	}
}

var check = fatal.If
