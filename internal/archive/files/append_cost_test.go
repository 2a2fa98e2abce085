package files_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func written(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip(err)
	}
	n, err := strconv.Atoi(string(regexp.MustCompile(`wchar: (\d+)`).FindSubmatch(text)[1]))
	check(t, err)
	return n
}

// TestAppendCost adds the events of one hour in small requests. The second half of the requests must not write much
// more data than the first half. If each request wrote the whole file again, the second half would write three times as
// much.
func TestAppendCost(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	s, dir := newS3(t), t.TempDir()
	counted := func() int { return s.written }
	for _, tt := range []struct {
		name          string
		events, batch int
		open          func() (*files.Sink, error)
		written       func() int
	}{
		{"folder of CSV", 50_000, 50, func() (*files.Sink, error) { return files.OpenEvents(dir, []string{"csv"}) }, func() int { return written(t) }},
		{"folder of Parquet", 10_000, 100, func() (*files.Sink, error) { return files.OpenEvents(t.TempDir(), []string{"parquet"}) }, func() int { return written(t) }},
		{"bucket of Parquet", 10_000, 100, func() (*files.Sink, error) { return files.OpenS3(t.Context(), s.config()) }, counted},
		{"bucket of CSV", 10_000, 100, func() (*files.Sink, error) {
			c := s.config()
			c.Formats = []string{"csv"}
			return files.OpenS3(t.Context(), c)
		}, counted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sink, err := tt.open()
			check(t, err)
			defer sink.Close()
			var halves []int
			for _, half := range []int{0, tt.events / 2} {
				before := tt.written()
				for i := 0; i < tt.events/2; i += tt.batch {
					check(t, sink.Append(t.Context(), table.Events, changes(half+i, tt.batch)))
				}
				halves = append(halves, tt.written()-before)
			}
			t.Logf("%d bytes, then %d bytes", halves[0], halves[1])
			if halves[1] > halves[0]*3/2 {
				t.Errorf("the first %d events wrote %d bytes, as many later events wrote %d bytes", tt.events/2, halves[0], halves[1])
			}
		})
	}
	name := filepath.Join(dir, "events/cluster=east/date=2026-03-01/events-12.csv")
	info, err := os.Stat(name)
	check(t, err)
	if size := int(info.Size()); size < 6_000_000 {
		t.Errorf("the file has %d bytes", size)
	}
	lines, err := os.ReadFile(name)
	check(t, err)
	if n := bytes.Count(lines, []byte("\n")); n != 50_001 {
		t.Errorf("the file has %d lines, want a header and 50,000 events", n)
	}
}

const repeatsIn = "GPULEDGER_TEST_REPEATS"

// A new process receives all 250,000 events of an hour a second time. Its peak memory must be limited, and no file may
// change.
func TestRepeatsMemory(t *testing.T) {
	const events, batch = 250_000, 1000
	if dir := os.Getenv(repeatsIn); dir != "" {
		sink, err := files.OpenEvents(dir, files.Formats())
		check(t, err)
		for i := 0; i < events; i += batch {
			check(t, sink.Append(t.Context(), table.Events, changes(i, batch)))
		}
		check(t, sink.Close())
		status, err := os.ReadFile("/proc/self/status")
		check(t, err)
		fmt.Printf("peak: %s kB\n", regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(status)[1])
		return
	}
	if info, _ := debug.ReadBuildInfo(); testing.Short() || slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("long: make test runs it. The race detector needs more memory")
	}
	dir := t.TempDir()
	sink, err := files.OpenEvents(dir, files.Formats())
	check(t, err)
	for i := 0; i < events; i += 10 * batch {
		check(t, sink.Append(t.Context(), table.Events, changes(i, 10*batch)))
	}
	check(t, sink.Close())
	before := tree(t, dir)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRepeatsMemory$")
	cmd.Env = append(os.Environ(), repeatsIn+"="+dir, "GOGC=100")
	out, err := cmd.CombinedOutput()
	found := regexp.MustCompile(`peak: (\d+) kB`).FindSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	kB, err := strconv.Atoi(string(found[1]))
	check(t, err)
	t.Logf("peak memory of the process: %d kB", kB)
	if kB > 100<<10 {
		t.Errorf("repeated events take %d kB, want at most 100 MiB", kB)
	}
	for name, content := range tree(t, dir) {
		if content != before[name] {
			t.Errorf("%s changed", name)
		}
	}
}

// A sink keeps only a limited number of ids in memory, but must still find the ids of other hours. If an hour has too
// many events, the sink must reject its new events.
func TestAppendLimit(t *testing.T) {
	const limit = 300
	for _, format := range files.Formats() {
		dir := t.TempDir()
		sink, err := files.OpenEvents(dir, []string{format})
		check(t, err)
		sink.LimitIDs(limit)
		var before map[string]string
		for range 2 {
			for hour := range 10 {
				rows := changes(100*hour, 100)
				for _, row := range rows {
					row[1] = noon.Add(time.Duration(hour) * time.Hour)
				}
				check(t, sink.Append(t.Context(), table.Events, rows))
				if n := sink.KnownIDs(); n > limit {
					t.Errorf("%s: %d ids in memory", format, n)
				}
			}
			if after := tree(t, dir); before == nil {
				before = after
			} else if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("%s: repeated events changed files (-before +after):\n%s", format, diff)
			}
		}
		for i := 2000; err == nil; i += 100 {
			if i > 10_000 {
				t.Fatalf("%s: an hour contains %d events", format, i)
			}
			err = sink.Append(t.Context(), table.Events, changes(i, 100))
		}
		if !errors.Is(err, files.ErrFull) {
			t.Errorf("%s: error of too many events is %v", format, err)
		}
		check(t, sink.Append(t.Context(), table.Events, changes(2000, 100)))
		check(t, sink.Close())
	}
}
