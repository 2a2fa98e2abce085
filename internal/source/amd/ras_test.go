package amd_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

const ras1 = "sys/bus/pci/devices/" + bus1 + "/ras/"

// errorsAfter runs the steps at intervals of ten seconds, and returns the error counts after each step.
func errorsAfter(t *testing.T, d *tree, steps ...func()) (got []string) {
	t.Helper()
	clock := gputest.NewClock()
	s := d.open(clock.Now)
	for _, step := range steps {
		step()
		clock.Advance(10 * time.Second)
		report := gputest.Read(t, s)
		if len(report.Readings) != 1 {
			t.Fatalf("%d readings, want 1", len(report.Readings))
		}
		var counts []string
		for _, e := range report.Readings[0].RASErrors {
			counts = append(counts, fmt.Sprintf("%s %s %d", e.Block, e.Type, e.Count))
		}
		got = append(got, strings.Join(counts, ", "))
	}
	return got
}

func TestErrors(t *testing.T) {
	d := one(t)
	d.write(ras1+"umc_err_count", "ue: 1\nce: 12\nde: 3\n")
	d.write(ras1+"gfx_err_count", "ue: 0\nce: 0")
	d.write(ras1+"features", "feature mask: 0x5")
	d.write(ras1+"gpu_vram_bad_pages", "0x00000001 : 0x00001000 : R\n")
	d.write(ras1+"xgmi_wafl_err_count", "ue: 0\nce: 7\n")
	d.mkdir(ras1 + "sdma_err_count")
	got := errorsAfter(t, d, func() {}, func() { d.write(ras1+"gfx_err_count", "ue: 0\nce: 5") }, func() { d.remove(ras1) })
	const rest = ", umc correctable 12, umc deferred 3, umc uncorrectable 1, xgmi_wafl correctable 7, xgmi_wafl uncorrectable 0"
	want := []string{"gfx correctable 0, gfx uncorrectable 0" + rest, "gfx correctable 5, gfx uncorrectable 0" + rest, ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// A malformed file must provide no counts and not affect other files.
func TestDamagedErrors(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "no number": "ue:\nce: 1\n", "negative": "ue: -1\nce: 1\n", "unknown type": "ue: 0\nxe: 1\n", "twice": "ue: 0\nue: 1\n",
		"no type": "12\n", "torn": "ue: 0\nc", "ones": "ue: 4294967295\nce: 0\n", "64 ones": "ue: 18446744073709551615\n",
		"bytes": strings.Repeat("\xff", 16), "too long": strings.Repeat("ue: 0\n", 1<<16), "an error": "Query error status failed\n",
	} {
		t.Run(name, func(t *testing.T) {
			d := one(t)
			d.write(ras1+"gfx_err_count", "ue: 0\n")
			d.write(ras1+"umc_err_count", content)
			whole := func() { d.write(ras1+"umc_err_count", "ue: 0\nce: 2\n") }
			got := errorsAfter(t, d, func() {}, func() {}, whole, func() { d.write(ras1+"umc_err_count", content) })
			const gfx = "gfx uncorrectable 0"
			if diff := cmp.Diff([]string{gfx, gfx, gfx + ", umc correctable 2, umc uncorrectable 0", gfx}, got); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if n := strings.Count(d.log.String(), "\n"); n != 1 {
				t.Errorf("%d lines in the log, want 1:\n%s", n, &d.log)
			}
		})
	}
}

// After a count has decreased or jumped, the new count must be reported only after the next count has continued from
// it. A single wrong number must never be reported.
func TestErrorsFall(t *testing.T) {
	for _, tt := range []struct {
		name string
		is   []uint64
		want []string
	}{
		{"rises", []uint64{3, 3, 4, 900}, []string{"3", "3", "4", "900"}},
		{"the driver is loaded again", []uint64{3, 0, 0, 1}, []string{"3", "", "0", "1"}},
		{"one low number", []uint64{3, 1, 3, 4}, []string{"3", "", "3", "4"}},
		{"one high number", []uint64{3, 2e9, 3, 4}, []string{"3", "", "3", "4"}},
		{"a jump", []uint64{3, 2e9, 2e9, 2e9 + 1}, []string{"3", "", "2000000000", "2000000001"}},
		{"different numbers", []uint64{9, 5, 4, 3, 3}, []string{"9", "", "", "", "3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := one(t)
			var steps []func()
			var want []string
			for i, n := range tt.is {
				steps = append(steps, func() { d.write(ras1+"umc_err_count", fmt.Sprintf("ce: %d\n", n)) })
				text := ""
				if tt.want[i] != "" {
					text = "umc correctable " + tt.want[i]
				}
				want = append(want, text)
			}
			if diff := cmp.Diff(want, errorsAfter(t, d, steps...)); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

// The number of files that are read must be limited.
func TestManyBlocks(t *testing.T) {
	d := one(t)
	for i := range 100 {
		d.write(fmt.Sprintf("%sb%03d_err_count", ras1, i), "ce: 1\n")
	}
	if got := errorsAfter(t, d, func() {}); strings.Count(got[0], "correctable") != 64 {
		t.Errorf("counts %s, want 64", got[0])
	}
}

// Each reported count must be in the file, for any content.
func FuzzErrors(f *testing.F) {
	f.Add("ue: 0\nce: 12\nde: 3\n")
	f.Add("ue: 4294967295")
	f.Fuzz(func(t *testing.T, content string) {
		d := newTree(t)
		d.addCard(1, bus1, id1)
		d.write(metrics1, string(mi300(10, 500)))
		d.write(ras1+"umc_err_count", content)
		report, err := d.open(gputest.NewClock().Now).Read(t.Context())
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		short := map[gpu.RASType]string{gpu.RASCorrectable: "ce", gpu.RASUncorrectable: "ue", gpu.RASDeferred: "de"}
		for _, r := range report.Readings {
			for _, e := range r.RASErrors {
				if !strings.Contains(content, short[e.Type]+": ") || !strings.Contains(content, fmt.Sprint(e.Count)) {
					t.Errorf("%q has %d %s errors", content, e.Count, e.Type)
				}
			}
		}
	})
}
