package ask_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// trueHour writes an archive of one hour. Pod a holds GPU-1 and uses 60 W of its 100 W. Pod b holds GPU-2 and uses 40
// W. change may modify the rows before they are written.
func trueHour(t *testing.T, change func(h *table.Hour)) (folder string) {
	t.Helper()
	h := &table.Hour{Cluster: "lab", Start: october.Add(time.Hour)}
	const second = 3600
	for i, used := range []int64{60_000, 40_000} {
		g := table.GPU{Node: "n", UUID: fmt.Sprintf("GPU-%d", i+1), Energy: 100_000 * second, First: h.Start, Last: h.Start.Add(59 * time.Minute), Scrapes: 60}
		name := string(rune('a' + i))
		c := table.Charge{Node: "n", UUID: g.UUID, Namespace: "ml", Pod: name, PodUID: "u-" + name, Energy: used * second, Exclusive: used * second, Held: 1000 * second}
		h.GPUs = append(h.GPUs, g)
		h.Charges = append(h.Charges, c, table.Charge{Node: "n", UUID: g.UUID, Reason: "idle", Energy: g.Energy - c.Energy})
	}
	change(h)
	return bookstest.File(t, "csv", h)
}

// trueUse writes the true use of two hours to a file of a simulated node, with one row per ten seconds. change may
// modify each row.
func trueUse(t *testing.T, change func(second int, row string) string) (path string) {
	t.Helper()
	var text strings.Builder
	for s := 0; s <= 2*3600; s += 10 {
		var gpus []string
		for i, used := range []int{60_000, 40_000} {
			gpus = append(gpus, fmt.Sprintf(`{"uuid":"GPU-%d","energy_mj":%d,"peak_mw":100000,"containers":[{"kind":"pod","scope":"ml","name":"%c","uid":"u-%[3]c","part":"c","energy_mj":%[4]d,"held_ms":%[5]d}]}`,
				i+1, 100_000*s, 'a'+i, used*s, 1000*s))
		}
		row := fmt.Sprintf(`{"time_unix_ns":%d,"gpus":[%s]}`, october.Add(time.Duration(s)*time.Second).UnixNano(), strings.Join(gpus, ","))
		if row = change(s, row); row != "" {
			text.WriteString(row + "\n")
		}
	}
	path = filepath.Join(t.TempDir(), "truth.jsonl")
	check(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// TestTruth checks that verify detects changed rows in the archive and missing rows in the truth. The tolerance at each
// end of the hour is 70 seconds: a minute between scrapes, and ten seconds in the exporter. If two files contain the
// same GPU, verify must fail, because two simulated nodes then have the same number.
func TestTruth(t *testing.T) {
	asFiled := func(*table.Hour) {}
	asUsed := func(_ int, row string) string { return row }
	path := trueUse(t, asUsed)
	run(t, "verify", "--books="+trueHour(t, asFiled), "--truth="+path, "--truth="+path, "--from=2026-10-01T01", "--to=2026-10-01T02").has(1, "is also in another file")
	move := func(to, from *table.Charge, mJ int64) {
		to.Energy, to.Exclusive, from.Energy = to.Energy+mJ, to.Exclusive+mJ, from.Energy-mJ
	}
	for _, tt := range []struct {
		name   string
		filed  func(*table.Hour)
		used   func(second int, row string) string
		status int
		wrong  string // GPUs and pods in the answer with wrong values
		want   string
	}{
		{"equal", asFiled, asUsed, 0, "", ""},
		{"a pod has more, within the tolerance", func(h *table.Hour) { move(&h.Charges[0], &h.Charges[1], 60_000*69) }, asUsed, 0, "", ""},
		{"a pod has more", func(h *table.Hour) { move(&h.Charges[0], &h.Charges[1], 60_000*71) }, asUsed, 1, "a", ""},
		{"a pod has less", func(h *table.Hour) { move(&h.Charges[0], &h.Charges[1], -60_000*71) }, asUsed, 1, "a", ""},
		{"a pod and its GPU have more", func(h *table.Hour) {
			h.Charges[0].Energy += 100_000 * 71
			h.GPUs[0].Energy += 100_000 * 71
			h.Charges[0].Exclusive = h.Charges[0].Energy
		}, asUsed, 1, "GPU-1 a", ""},
		{"a charge that exceeds the GPU's energy", func(h *table.Hour) { h.Charges[0].Energy++ }, asUsed, 1, "", "lab: in 1 hours, the charges do not add up to the energy of the boards"},
		{"the held time", func(h *table.Hour) { h.Charges[2].Held -= 71_000 }, asUsed, 1, "b", ""},
		{"another pod", func(h *table.Hour) { h.Charges[2].PodUID = "u-c" }, asUsed, 1, "b b", ""},
		{"a GPU is missing from the archive", func(h *table.Hour) { h.GPUs, h.Charges = h.GPUs[:1], h.Charges[:2] }, asUsed, 1, "GPU-2 b", ""},
		{"a GPU is missing from the truth", asFiled, func(_ int, row string) string {
			first, _, _ := strings.Cut(row, `,{"uuid":"GPU-2"`)
			return first + "]}"
		}, 1, "GPU-2", ""},
		{"a pod is missing from the truth", asFiled, func(_ int, row string) string { return strings.ReplaceAll(row, "u-b", "u-c") }, 1, "b b", ""},
		{"a row is missing from the truth", asFiled, func(s int, row string) string { return map[bool]string{false: row}[s == 5000] }, 1, "", "has no row between 2026-10-01T01:23:10Z and 2026-10-01T01:23:30Z"},
		{"the last rows are missing from the truth", asFiled, func(s int, row string) string { return map[bool]string{false: row}[s > 7000] }, 1, "", "ends at 2026-10-01T01:56:40Z"},
	} {
		r := run(t, "verify", "--books="+trueHour(t, tt.filed), "--truth="+trueUse(t, tt.used), "--from=2026-10-01T01", "--to=2026-10-01T02", "-o", "json")
		var answer struct {
			Rows []struct {
				UUID string
				Pod  string
				OK   bool
			}
		}
		if r.out != "" {
			check(t, json.Unmarshal([]byte(r.out), &answer))
		}
		var wrong []string
		for _, row := range answer.Rows {
			if name := map[bool]string{true: row.UUID, false: row.Pod}[row.Pod == ""]; !row.OK {
				wrong = append(wrong, name)
			}
		}
		if r.has(tt.status, tt.want); strings.Join(wrong, " ") != tt.wrong || tt.status == 0 && len(answer.Rows) != 4 {
			t.Errorf("%s: wrong rows %q, want %q:\n%s", tt.name, wrong, tt.wrong, r.out)
		}
	}
}
