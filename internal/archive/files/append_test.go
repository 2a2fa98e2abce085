package files_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

// The strings of these events do not compress well, so the files are large.
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

// TestAppendCrash truncates a CSV file at every byte of the last request, as a crash can do. Then it repeats the
// request with additional events.
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
	second[0][9] = "a \"name\",\nwith lines\n" // owner's name
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
		t.Errorf("error for a damaged file is %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, damaged) {
		t.Errorf("a damaged file was changed, error %v", err)
	}
}

// TestAppendOlder adds rows to files from earlier versions. One file is larger than the present limit. Another file
// lacks a column.
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
				t.Errorf("%s of %s: the second file contains %q, want one row", place, format, content)
			}
		}
		if s.objects["/assets/fleet/"+day+"events-12."+format] != text.String() || got[day+"events-12."+format] != text.String() {
			t.Errorf("%s: the first file was changed", format)
		}
	}
}

// FuzzAppend adds a row to any CSV file with the right header. If Append succeeds, the file must contain the row once,
// after all complete rows. If Append fails, the file must not change.
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
