package files_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func readings(t *testing.T, r *files.Reader) (all []string) {
	t.Helper()
	days, err := r.Days(t.Context())
	check(t, err)
	for _, day := range days {
		check(t, r.Read(t.Context(), day.Of(table.Hours), []string{"cluster", "hour", "digest"}, func(row []table.Cell) {
			all = append(all, row[0].Text+" "+row[1].Time().Format("2006-01-02T15")+" "+row[2].Text)
		}))
		check(t, r.Read(t.Context(), day.Of(table.GPUHours), []string{"serial"}, func(row []table.Cell) { all = append(all, row[0].Text) }))
		check(t, r.Read(t.Context(), day.Of(table.Corrections), []string{"hour"}, func([]table.Cell) { all = append(all, "correction") }))
	}
	return all
}

// A reader must find the same hours in a folder, in a folder of links and in a bucket, in each format. It must list a
// bucket once, and read each file of the manifest once.
func TestReader(t *testing.T) {
	first, second := hour(noon, 7), hour(noon.AddDate(0, 0, 1), 5)
	var want []string
	for _, h := range []*table.Hour{first, second} {
		want = append(want, "east/1 "+h.Start.Format("2006-01-02T15")+" "+h.Digest, h.GPUs[0].Serial)
	}
	for _, format := range files.Formats() {
		dir, linked, s := t.TempDir(), t.TempDir(), newS3(t)
		c := s.config()
		c.Formats = []string{format}
		bucket, err := files.OpenS3(t.Context(), c)
		check(t, err)
		for _, sink := range []sinktest.Sink{open(t, dir, format), bucket} {
			check(t, sink.Replace(t.Context(), first))
			check(t, sink.Replace(t.Context(), second))
		}
		for _, of := range []table.Table{table.Hours, table.GPUHours} {
			check(t, os.Mkdir(filepath.Join(linked, of.Name), 0o700))
			check(t, os.Symlink(filepath.Join(dir, of.Name, "cluster=east%2F1"), filepath.Join(linked, of.Name, "cluster=east%2F1")))
		}
		readers := make(map[string]*files.Reader)
		readers["folder"], err = files.OpenReader(t.Context(), dir)
		check(t, err)
		readers["links"], err = files.OpenReader(t.Context(), linked)
		check(t, err)
		s.lists, s.reads = 0, make(map[string]int)
		readers["bucket"], err = files.OpenBucket(t.Context(), c, "--books")
		check(t, err)
		for name, r := range readers {
			for range 2 {
				if diff := cmp.Diff(want, readings(t, r)); diff != "" {
					t.Errorf("%s of %s (-want +got):\n%s", name, format, diff)
				}
			}
		}
		if s.lists != 1 {
			t.Errorf("the bucket is listed %d times", s.lists)
		}
		for name, n := range s.reads {
			if strings.Contains(name, "/hours.") && n != 1 {
				t.Errorf("%s is read %d times", name, n)
			}
		}
		check(t, os.RemoveAll(filepath.Join(dir, table.Hours.Name)))
		if _, err := files.OpenReader(t.Context(), dir); err == nil || !strings.Contains(err.Error(), dir+" has no files of the archive") {
			t.Errorf("error for a folder without hours is %v", err)
		}
	}
}

// A reader must ignore files that the archive did not write. It must reject a folder with an invalid date. It must also
// reject a second encoding of a cluster's name. Otherwise it would read the days of this cluster twice.
func TestStray(t *testing.T) {
	dir := t.TempDir()
	check(t, open(t, dir).Replace(t.Context(), hour(noon, 7)))
	for _, name := range []string{"hours/README", "hours/cluster=east%2F1/notes.csv", "hours/cluster=east%2F1/date=2026-03-02/other.csv", "hours/cluster=east%2F1/date=2026-03-03/a/hours.csv", "hours/cluster=east%2F1/date=2026-03-01/hours.old.csv"} {
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check(t, os.WriteFile(path, nil, 0o600))
	}
	r, err := files.OpenReader(t.Context(), dir)
	check(t, err)
	days, err := r.Days(t.Context())
	check(t, err)
	if diff := cmp.Diff([]files.Day{{Cluster: "east/1", Date: noon.Truncate(24 * time.Hour)}}, days); diff != "" {
		t.Errorf("days (-want +got):\n%s", diff)
	}
	for _, name := range []string{"hours/cluster=east%2F1/date=March/hours.csv", "hours/cluster=e%61st%2F1/date=2026-03-01/hours.csv"} {
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check(t, os.WriteFile(path, nil, 0o600))
		if _, err := r.Days(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("error for %s is %v", name, err)
		}
		check(t, os.Remove(path))
	}
}
