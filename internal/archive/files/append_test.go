package files_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

// changes returns the rows of some events of an hour, with texts that do not compress well.
func changes(first, n int) [][]any {
	var all []event.Event
	for i := first; i < first+n; i++ {
		sum := sha256.Sum256([]byte(strconv.Itoa(i)))
		text := hex.EncodeToString(sum[:])
		all = append(all, event.Event{
			Kind: "phase", ID: text[:36] + "/phase/Running", At: noon.Add(time.Duration(i%3600) * time.Second), Namespace: "ml", Pod: "train-" + text[:8], PodUID: text[:36],
			Details: []byte(`{"from":"Pending","reason":"","to":"` + text[40:] + `"}`),
		})
	}
	return table.EventRows(table.Events, "east", table.Place(all, noon))
}

// written returns the bytes that this process has written, as the kernel counts them.
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

// TestAppendCost files events of one hour in small requests: the second half of the requests writes not
// much more than the first half. If each request wrote the whole file of the hour again, it would write
// three times as much.
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
		{"folder of CSV", 250_000, 250, func() (*files.Sink, error) { return files.OpenEvents(dir, []string{"csv"}) }, func() int { return written(t) }},
		{"folder of Parquet", 10_000, 50, func() (*files.Sink, error) { return files.OpenEvents(t.TempDir(), []string{"parquet"}) }, func() int { return written(t) }},
		{"bucket of Parquet", 10_000, 50, func() (*files.Sink, error) { return files.OpenS3(t.Context(), s.config()) }, counted},
		{"bucket of CSV", 10_000, 50, func() (*files.Sink, error) {
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
				t.Errorf("the first %d events wrote %d bytes, as many later ones %d", tt.events/2, halves[0], halves[1])
			}
		})
	}
	name := filepath.Join(dir, "events/cluster=east/date=2026-03-01/events-12.csv")
	info, err := os.Stat(name)
	check(t, err)
	if size := int(info.Size()); size < 30_000_000 {
		t.Errorf("the file has %d bytes", size)
	}
	lines, err := os.ReadFile(name)
	check(t, err)
	if n := bytes.Count(lines, []byte("\n")); n != 250_001 {
		t.Errorf("the file has %d lines, want a header and 250,000 events", n)
	}
}

const repeatsIn = "GPULEDGER_TEST_REPEATS"

// TestRepeatsMemory checks the memory of a new process that receives all 250,000 events of an hour again, in
// requests of 1,000: no file changes.
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
	cmd.Env = append(os.Environ(), repeatsIn+"="+dir)
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

// TestAppendCrash cuts a CSV file at every byte of its last request, as a crash does. The request is then
// repeated, with other events.
func TestAppendCrash(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "events/cluster=east/date=2026-03-01/events-12.csv")
	add := func(rows [][]any) error {
		sink, err := files.OpenEvents(dir, []string{"csv"})
		check(t, err)
		defer sink.Close()
		return sink.Append(context.Background(), table.Events, rows)
	}
	first, second, third := changes(0, 2), changes(2, 2), changes(4, 1)
	second[0][9] = "a \"name\",\nwith lines\n" // the owner
	check(t, add(first))
	begin, err := os.ReadFile(path)
	check(t, err)
	check(t, add(second))
	whole, err := os.ReadFile(path)
	check(t, err)
	var want []string
	for _, row := range slices.Concat(first, second, third) {
		want = append(want, row[3].(string))
	}
	slices.Sort(want)
	tails := []string{"\x00\x00\x00"}
	for n := len(begin); n <= len(whole); n++ {
		tails = append(tails, string(whole[len(begin):n]))
	}
	for _, tail := range tails {
		check(t, os.WriteFile(path, append(slices.Clone(begin), tail...), 0o600))
		check(t, add(append(slices.Clone(second), third...)))
		in, err := os.Open(path)
		check(t, err)
		rows, err := csv.NewReader(in).ReadAll()
		check(t, err)
		check(t, in.Close())
		var ids []string
		for _, row := range rows[1:] {
			ids = append(ids, row[3])
		}
		slices.Sort(ids)
		if diff := cmp.Diff(want, ids); diff != "" {
			t.Fatalf("cut after %q: ids (-want +got):\n%s", tail, diff)
		}
	}
	damaged := bytes.Replace(whole, []byte("phase"), []byte("ph\"se"), 1)
	check(t, os.WriteFile(path, damaged, 0o600))
	if err := add(third); err == nil || !strings.Contains(err.Error(), "events-12.csv") {
		t.Errorf("error of a damaged file is %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, damaged) {
		t.Errorf("a damaged file was changed, error %v", err)
	}
}

// TestAppendOlder checks that rows are added beside files of an earlier version: a file that is larger than
// files are now, and a file without a column.
func TestAppendOlder(t *testing.T) {
	large := changes(0, 3000)
	older := table.Events
	older.Columns = slices.DeleteFunc(slices.Clone(older.Columns), table.Column.Added)
	for i := range large {
		large[i] = large[i][:len(older.Columns)]
	}
	next := changes(2999, 2)
	day := "events/cluster=east/date=2026-03-01/"
	for _, format := range files.Formats() {
		var text bytes.Buffer
		check(t, files.Write(&text, format, older, large))
		s, dir := newS3(t), t.TempDir()
		s.objects["/assets/fleet/"+day+"events-12."+format] = text.String()
		check(t, os.MkdirAll(filepath.Join(dir, day), 0o750))
		check(t, os.WriteFile(filepath.Join(dir, day, "events-12."+format), text.Bytes(), 0o600))
		c := s.config()
		c.Formats = []string{format}
		bucket, err := files.OpenS3(t.Context(), c)
		check(t, err)
		folder, err := files.OpenEvents(dir, []string{format})
		check(t, err)
		defer folder.Close()
		for range 2 {
			check(t, bucket.Append(t.Context(), table.Events, next))
			check(t, folder.Append(t.Context(), table.Events, next))
		}
		var want bytes.Buffer
		check(t, files.Write(&want, format, table.Events, next[1:]))
		got := tree(t, dir)
		for place, content := range map[string]string{"bucket": s.objects["/assets/fleet/"+day+"events-12-1."+format], "folder": got[day+"events-12-1."+format]} {
			if content != want.String() {
				t.Errorf("%s of %s: the second file has %q, want one row", place, format, content)
			}
		}
		if s.objects["/assets/fleet/"+day+"events-12."+format] != text.String() || got[day+"events-12."+format] != text.String() {
			t.Errorf("%s: the first file was changed", format)
		}
	}
}

// TestAppendLimit checks that a sink keeps a limited number of ids and still finds those of other hours,
// and that it rejects new events of an hour with too many.
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
				t.Fatalf("%s: an hour takes %d events", format, i)
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

// TestModes checks that other users cannot read the archive with any umask.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "archive")
	hours, err := files.Open(dir, files.Formats())
	check(t, err)
	defer hours.Close()
	events, err := files.OpenEvents(dir, files.Formats())
	check(t, err)
	defer events.Close()
	check(t, hours.Replace(t.Context(), sinktest.Hour(noon, 7)))
	for i := range 2 {
		check(t, events.Append(t.Context(), table.Events, changes(i, 1)))
	}
	found := 0
	check(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		want := fs.FileMode(0o640)
		if entry.IsDir() {
			want = 0o750
		}
		if found++; err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has the mode %o, want %o", path, info.Mode().Perm(), want)
		}
		return err
	}))
	if found < 20 {
		t.Errorf("%d files and folders", found)
	}
}

// FuzzAppend adds a row to any CSV file with the right header: it is added once, after all complete rows,
// or the file is not changed.
func FuzzAppend(f *testing.F) {
	var header bytes.Buffer
	check(f, files.Write(&header, "csv", table.Events, nil))
	row := changes(0, 1)
	for _, body := range []string{"", "\n", "a,b\n", "\"", "\x00\x00", strings.Repeat(",", 13) + "\n", strings.Repeat("\"\n\",", 13) + "x\r\n" + strings.Repeat(",", 13), "c,h,a," + row[0][3].(string) + strings.Repeat(",", 10) + "\n"} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		dir := t.TempDir()
		path := filepath.Join(dir, "events/cluster=east/date=2026-03-01/events-12.csv")
		check(t, os.MkdirAll(filepath.Dir(path), 0o750))
		before := header.String() + body
		check(t, os.WriteFile(path, []byte(before), 0o600))
		sink, err := files.OpenEvents(dir, []string{"csv"})
		check(t, err)
		defer sink.Close()
		failure := sink.Append(t.Context(), table.Events, row)
		text, err := os.ReadFile(path)
		check(t, err)
		if failure != nil {
			if string(text) != before {
				t.Errorf("%v, and the file changed to %q", failure, text)
			}
			return
		}
		lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		n := 0
		for _, line := range lines {
			if line[3] == row[0][3].(string) {
				n++
			}
		}
		earlier, err := csv.NewReader(strings.NewReader(before)).ReadAll()
		if err == nil && strings.HasSuffix(before, "\n") && !slices.EqualFunc(earlier, lines[:min(len(earlier), len(lines))], slices.Equal) {
			t.Errorf("rows of %q were lost: %q", before, text)
		}
		if n != 1 && !strings.Contains(body, row[0][3].(string)) {
			t.Errorf("%d rows with the id in %q", n, text)
		}
	})
}
