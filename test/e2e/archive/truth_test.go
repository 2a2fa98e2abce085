//go:build e2e

package archive_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/fleet"
	"github.com/gpuledger/gpuledger/test/program"
)

// TestTruth compares the true use of a simulated node's GPUs with an archive. A real exporter reads the node, a real
// Prometheus scrapes the exporter, and the archive reads the samples. The test uses the last 50 seconds of an hour,
// with a scrape every five seconds. Then it doubles a pod's charge, and changes the sums for the GPU and the hour
// accordingly. The comparison must detect this change.
func TestTruth(t *testing.T) {
	t.Parallel()
	const scrape, before, after = 5 * time.Second, 50 * time.Second, 15 * time.Second
	f := fleet.OpenFor(t)
	n := fleet.Node{Scenario: "churn", Machine: simnode.Machine{Number: 7}, Address: program.AddressFor(t)}
	sc, err := n.Simulated()
	check(t, err)
	hour := began.Add(time.Hour)
	b := &books{T: t, fleet: f, node: n, name: sc.Node, record: foldtest.NewStore(), latest: make(map[string]int64), filed: make(map[string]int64)}
	start := time.Now()
	b.moved = hour.Add(-before).Sub(start)
	b.boot()
	for i := range int((before + after) / scrape) {
		b.scrape()
		<-time.After(time.Until(start.Add(time.Duration(i+1) * scrape)))
	}
	rows := moveTruth(t, f.Path(sc.Node+".0/truth-10s.jsonl"), b.moved)

	folder, end := t.TempDir(), hour.Format(time.RFC3339)
	succeed(t, "once", "--folder="+folder, "--folder.format=csv", "--store.url="+serve(t, f.Group, "store", b.record, "").URL(), "--from="+began.Format(time.RFC3339), "--until="+end)
	verify := []string{"verify", "--books=" + folder, "--truth=" + rows, "--truth.scrape-interval=5s", "--from=" + began.Format(time.RFC3339), "--to=" + end, "-o", "json"}
	a := ask(t, verify...)
	if a.status != 0 || len(a.Rows) < 100 {
		t.Fatalf("exit status %d, %d rows:\n%s%s", a.status, len(a.Rows), wrongOf(a), a.errors)
	}
	largest := slices.MaxFunc(a.Rows, func(x, y map[string]any) int { return int(owned(x) - owned(y)) })
	t.Logf("%d rows, the largest owner is %v", len(a.Rows), largest)
	uuid, pod, energy := largest["uuid"].(string), largest["pod"].(string), int64(owned(largest))
	addTo(t, folder, "charges", map[string]string{"uuid": uuid, "pod": pod}, energy)
	addTo(t, folder, "gpu_hours", map[string]string{"uuid": uuid}, energy)
	addTo(t, folder, "hours", nil, energy)
	if a := ask(t, verify...); a.status != 1 || wrongOf(a) != uuid+"\n"+uuid+" "+pod+"\n" || strings.Contains(a.out, "do not add up") {
		t.Errorf("with a doubled charge: exit status %d:\n%s%s", a.status, wrongOf(a), a.errors)
	}
}

func owned(row map[string]any) float64 {
	if row["pod"] == nil {
		return 0
	}
	return row["energy_mj"].(float64)
}

func wrongOf(a answered) (text string) {
	for _, row := range a.Rows {
		if row["ok"] != false {
			continue
		}
		text += row["uuid"].(string)
		if pod, ok := row["pod"].(string); ok {
			text += " " + pod
		}
		text += "\n"
	}
	return text
}

// moveTruth adds the difference of the clocks to the times in a file of the truth. It returns the path of the new file.
func moveTruth(t *testing.T, path string, by time.Duration) string {
	t.Helper()
	moved := regexp.MustCompile(`"time_unix_ns":(\d+)`).ReplaceAllStringFunc(text(t, path), func(field string) string {
		name, value, _ := strings.Cut(field, ":")
		n, err := strconv.ParseInt(value, 10, 64)
		check(t, err)
		return name + ":" + strconv.FormatInt(n+int64(by), 10)
	})
	rows := filepath.Join(t.TempDir(), "truth.jsonl")
	check(t, os.WriteFile(rows, []byte(moved), 0o600))
	return rows
}

func addTo(t *testing.T, folder, table string, of map[string]string, energy int64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, table, "*", "*", "*.csv"))
	check(t, err)
	if len(names) != 1 {
		t.Fatalf("%d files of %s", len(names), table)
	}
	lines := lines(t, names[0])
	for _, line := range lines[1:] {
		matches := true
		for column, value := range of {
			matches = matches && line[slices.Index(lines[0], column)] == value
		}
		for _, column := range []string{"energy_mj", "exclusive_mj"} {
			if i := slices.Index(lines[0], column); i >= 0 && matches {
				n, err := strconv.ParseInt(line[i], 10, 64)
				check(t, err)
				line[i] = strconv.FormatInt(n+energy, 10)
			}
		}
	}
	var out strings.Builder
	check(t, csv.NewWriter(&out).WriteAll(lines))
	check(t, os.WriteFile(names[0], []byte(out.String()), 0o600))
}
