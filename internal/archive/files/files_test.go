package files_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/fatal"
	"github.com/gpuledger/gpuledger/test/golden"
)

var (
	noon = sinktest.Noon
	hour = sinktest.Hour
)

func TestSink(t *testing.T) {
	for _, formats := range [][]string{{"csv"}, {"parquet"}, {"parquet", "csv"}} {
		t.Run(strings.Join(formats, "+"), func(t *testing.T) {
			sinktest.Test(t, func(t *testing.T) sinktest.Sink { return open(t, t.TempDir(), formats...) })
		})
	}
}

// During the test, another sink has the folder open to write hours.
func TestAppend(t *testing.T) {
	sinktest.TestAppend(t, func(t *testing.T) (sinktest.Appender, sinktest.Rows) {
		dir := t.TempDir()
		open(t, dir)
		s, err := files.OpenEvents(dir, files.Formats())
		check(t, err)
		t.Cleanup(func() { _ = s.Close() })
		if _, err := files.OpenEvents(dir, files.Formats()); err == nil {
			t.Error("the folder can be opened twice")
		}
		return s, func(of table.Table) (rows [][]string) {
			names, err := filepath.Glob(filepath.Join(dir, of.Name, "cluster=*", "date=*", of.Name+"-[0-2][0-9].csv"))
			check(t, err)
			for _, name := range names {
				text, err := os.Open(name)
				check(t, err)
				found, err := csv.NewReader(text).ReadAll()
				check(t, err)
				check(t, text.Close())
				rows = append(rows, found[1:]...)
				data, err := os.ReadFile(strings.TrimSuffix(name, ".csv") + ".parquet")
				check(t, err)
				same, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
				check(t, err)
				if n := same.NumRows(); n != int64(len(found)-1) {
					t.Errorf("%s has %d rows, the same file in Parquet has %d", name, len(found)-1, n)
				}
			}
			return rows
		}
	})
}

func open(t *testing.T, path string, formats ...string) *files.Sink {
	t.Helper()
	if formats == nil {
		formats = []string{"csv"}
	}
	f, err := files.Open(path, formats)
	check(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

var check = fatal.If

func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	check(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		all[name] = string(text)
		return err
	}))
	return all
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	check(t, f.Replace(t.Context(), hour(noon.Add(time.Hour), 5)))
	check(t, f.Replace(t.Context(), hour(noon, 7)))
	all := tree(t, dir)
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "== %s\n%s", name, all[name])
	}
	golden.Check(t, "files.txt", text.Bytes())
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if _, err := files.Open(dir, []string{"csv"}); err == nil || !strings.Contains(err.Error(), "another gpuledger-archive") {
		t.Errorf("error for a locked folder is %v", err)
	}
}

// A file that another version wrote, with other columns, must not change.
func TestOtherColumns(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	check(t, f.Replace(t.Context(), hour(noon, 7)))
	path := filepath.Join(dir, "charges/cluster=east%2F1/date=2026-03-01/charges.csv")
	check(t, os.WriteFile(path, []byte("cluster,hour,more\n"), 0o600))
	if err := f.Replace(t.Context(), hour(noon, 8)); err == nil || !strings.Contains(err.Error(), "differ from the columns") {
		t.Errorf("error for a file with other columns is %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "cluster,hour,more\n" {
		t.Errorf("file was changed to %q, error %v", text, err)
	}
}

// Files from earlier versions have fewer columns. The archive can read them. When it writes another hour to such a
// file, the file gets the missing columns.
func TestOlder(t *testing.T) {
	for _, format := range files.Formats() {
		dir, first, second := t.TempDir(), hour(noon, 7), hour(noon.Add(time.Hour), 5)
		first.GPUs[0].Uncounted, first.GPUs[0].Estimated, first.Charges[0].Estimated, first.Charges[0].Busy = 0, 0, 0, 0
		first.Digest = table.Digest(first)
		second.GPUs[0].DRAMUncorrectable = new(int64(0))
		second.UnknownPods = []table.PodID{{Namespace: "ml", Pod: "p", UID: "u"}}
		second.Charges = append(second.Charges, table.Charge{Node: "a", UUID: "GPU-1", Manager: "slurm", Unit: "7", Username: "alice", Energy: 3})
		f := open(t, dir, format)
		check(t, f.Replace(t.Context(), first))
		for _, older := range []table.Table{table.GPUHours, table.Charges, table.Hours} {
			rows := older.Rows(first)
			older.Columns = slices.DeleteFunc(slices.Clone(older.Columns), table.Column.Added)
			for i := range rows {
				rows[i] = rows[i][:len(older.Columns)]
			}
			var text bytes.Buffer
			check(t, files.Write(&text, format, older, rows))
			check(t, os.WriteFile(filepath.Join(dir, older.Name+"/cluster=east%2F1/date=2026-03-01/"+older.Name+"."+format), text.Bytes(), 0o600))
		}

		if filed, err := f.Filed(t.Context(), first.Cluster, noon); err != nil || filed != first.Filed {
			t.Errorf("%s: manifest %+v, error %v, want %+v", format, filed, err, first.Filed)
		}

		reader, err := files.OpenReader(t.Context(), dir)
		check(t, err)
		day := files.Day{Cluster: first.Cluster, Date: noon.Truncate(24 * time.Hour)}
		check(t, reader.Read(t.Context(), day.Of(table.GPUHours), []string{"uncounted_mj", "energy_mj", "estimated_mj", "dram_uncorrectable"}, func(row []table.Cell) {
			if row[0].Int != 0 || row[1].Int != 7 || row[2].Int != 0 || row[3].Known {
				t.Errorf("%s: GPU %v", format, row)
			}
		}))
		check(t, reader.Read(t.Context(), day.Of(table.Charges), []string{"unit", "pod_uid", "energy_mj", "busy_ms"}, func(row []table.Cell) {
			if row[0].Text != "" || row[1].Text != "u" || row[2].Int != 7 || row[3].Int != 0 {
				t.Errorf("%s: row %v", format, row)
			}
		}))
		check(t, f.Replace(t.Context(), second))
		check(t, reader.Read(t.Context(), day.Of(table.GPUHours), []string{"hour", "dram_uncorrectable"}, func(row []table.Cell) {
			if later := row[0].Time().Equal(second.Start); row[1].Known != later || row[1].Int != 0 {
				t.Errorf("%s: %d errors at %s, known: %t", format, row[1].Int, row[0].Time(), row[1].Known)
			}
		}))
		var unknown, bounds []int64
		check(t, reader.Read(t.Context(), day.Of(table.GPUHours), []string{"uncounted_mj"}, func(row []table.Cell) { bounds = append(bounds, row[0].Int) }))
		check(t, reader.Read(t.Context(), day.Of(table.Hours), []string{"unknown_pods"}, func(row []table.Cell) { unknown = append(unknown, row[0].Int) }))
		if !slices.Equal(unknown, []int64{0, 1}) || !slices.Equal(bounds, []int64{0, 11}) {
			t.Errorf("%s: unknown pods %v, uncounted energy %v, want 0 and 1, 0 and 11", format, unknown, bounds)
		}
		for _, h := range []*table.Hour{first, second} {
			found, err := f.Charges(t.Context(), h.Cluster, h.Start)
			check(t, err)
			if rest := table.Difference(found, h.Charges); len(rest) > 0 || len(found) != len(h.Charges) {
				t.Errorf("%s: charges of %s differ by %+v", format, h.Start, rest)
			}
		}
	}
}

// A damaged file must not cause a panic. A truncated Parquet file must cause an error, and must not be changed.
func TestDamaged(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	for _, format := range files.Formats() {
		dir := t.TempDir()
		f := open(t, dir, format)
		check(t, f.Replace(t.Context(), hour(noon, 7)))
		path := filepath.Join(dir, "charges/cluster=east%2F1/date=2026-03-01/charges."+format)
		whole, err := os.ReadFile(path)
		check(t, err)
		for n := 0; n < len(whole); n += 11 {
			flipped := bytes.Clone(whole)
			flipped[n] ^= 0xff
			check(t, os.WriteFile(path, flipped, 0o600))
			_, _ = f.Charges(t.Context(), "east/1", noon)
			check(t, os.WriteFile(path, whole[:n], 0o600))
			if _, err := f.Charges(t.Context(), "east/1", noon); err == nil && format == "parquet" {
				t.Fatalf("no error for a file that ends at %d", n)
			}
		}
		check(t, os.WriteFile(path, whole[:len(whole)/3], 0o600))
		if err := f.Replace(t.Context(), hour(noon, 8)); err == nil || !strings.Contains(err.Error(), "charges."+format) {
			t.Errorf("error for a damaged file is %v, want an error with its name", err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, whole[:len(whole)/3]) {
			t.Errorf("a damaged %s file was changed, error %v", format, err)
		}
	}
}

// The files of one format must not depend on other formats. Only an hour in all formats counts as archived.
func TestFormats(t *testing.T) {
	both, csv, again := t.TempDir(), t.TempDir(), t.TempDir()
	first, second, third := open(t, both, files.Formats()...), open(t, csv), open(t, again, "parquet")
	unseen := hour(noon, 7)
	unseen.GPUs[0].First, unseen.GPUs[0].Last, unseen.GPUs[0].Scrapes = time.Time{}, time.Time{}, 0
	for _, h := range []*table.Hour{hour(noon.Add(time.Hour), 5), unseen} {
		check(t, first.Replace(t.Context(), h))
		check(t, second.Replace(t.Context(), h))
		check(t, third.Replace(t.Context(), h))
	}
	got := tree(t, both)
	for name, text := range tree(t, csv) {
		if got[name] != text {
			t.Errorf("%s differs if Parquet is written too", name)
		}
	}
	parquet := 0
	for name, text := range tree(t, again) {
		if strings.HasSuffix(name, ".parquet") {
			parquet++
			if got[name] != text {
				t.Errorf("%s differs if CSV is written too", name)
			}
		}
	}
	if parquet != 5 {
		t.Errorf("%d Parquet files, want 5", parquet)
	}
	check(t, os.Remove(filepath.Join(both, "hours/cluster=east%2F1/date=2026-03-01/hours.parquet")))
	if filed, err := first.Filed(t.Context(), "east/1", noon); err != nil || filed != (table.Filed{}) {
		t.Errorf("the manifest without its Parquet file contains %v, error %v, want no row", filed, err)
	}
	if _, err := files.Open(t.TempDir(), []string{"xml"}); err == nil || !strings.Contains(err.Error(), "csv, parquet") {
		t.Errorf("error for an unknown format is %v", err)
	}
}
