package files_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const (
	serialsHour = "year=2026/month=03/day=01/hour=12/cluster=east%2F1/"
	serialsFile = "20260301-120000-gpuledger.csv"
)

// boards returns two boards with a record and two GPUs without a record. The board on node a has two GPUs. The node of
// the other board has no machine name. One GPU without a record was never scraped, and one has no serial number.
func boards() *table.Hour {
	h := hour(noon, 7)
	second := h.GPUs[0]
	second.UUID, second.Last = "second", second.Last.Add(1500*time.Millisecond)
	other := h.GPUs[0]
	other.Node, other.Machine, other.SystemUUID, other.ChassisSerial, other.Serial = "b/c", "", "sys", "C,1", "S2"
	unseen, unknown := other, other
	unseen.Scrapes, unknown.Serial = 0, ""
	h.GPUs = append(h.GPUs, second, other, unseen, unknown)
	h.Digest = table.Digest(h)
	return h
}

func records(all map[string]string) map[string]string {
	found := make(map[string]string)
	for name, text := range all {
		if strings.HasPrefix(name, "year=") {
			found[name] = text
		}
	}
	return found
}

// In gpuid's layout, files must contain a record for each node and serial number, with the columns in gpuid's order. A
// later revision must replace these files, but keep the files that gpuid itself has written.
func TestSerials(t *testing.T) {
	dir, s := t.TempDir(), newS3(t)
	const theirs = serialsHour + "node=a/20260301-120501-uuid.json"
	check(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(theirs)), 0o700))
	check(t, os.WriteFile(filepath.Join(dir, theirs), []byte("{}"), 0o600))
	s.objects["/assets/fleet/"+theirs] = "{}"
	folder, err := files.OpenSerials(dir)
	check(t, err)
	defer folder.Close()
	bucket, err := files.OpenSerialsBucket(t.Context(), s.config())
	check(t, err)
	of := map[string]func() map[string]string{
		"folder": func() map[string]string { return records(tree(t, dir)) },
		"bucket": func() map[string]string {
			all := make(map[string]string)
			for name, text := range s.objects {
				all[strings.TrimPrefix(name, "/assets/fleet/")] = text
			}
			return records(all)
		},
	}
	for name, sink := range map[string]*files.Serials{"folder": folder, "bucket": bucket} {
		first := boards()
		check(t, sink.Replace(t.Context(), first))
		want := map[string]string{
			theirs:                                "{}",
			serialsHour + "node=a/" + serialsFile: "east/1,a,vm-1,gpuledger,,S1,2026-03-01T13:00:01.5Z\n",
			serialsHour + "node=b%2Fc/" + serialsFile: "east/1,b/c,sys,gpuledger,\"C,1\",S2,2026-03-01T13:00:00Z\n",
		}
		if diff := cmp.Diff(want, of[name]()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if filed, err := sink.Filed(t.Context(), first.Cluster, noon); err != nil || filed != first.Filed {
			t.Errorf("%s: manifest %+v, error %v, want %+v", name, filed, err, first.Filed)
		}
		again := hour(noon, 9)
		again.Revision = 2
		check(t, sink.Replace(t.Context(), again))
		delete(want, serialsHour+"node=b%2Fc/"+serialsFile)
		want[serialsHour+"node=a/"+serialsFile] = "east/1,a,vm-1,gpuledger,,S1,2026-03-01T13:00:00Z\n"
		if diff := cmp.Diff(want, of[name]()); diff != "" {
			t.Errorf("%s after a revision (-want +got):\n%s", name, diff)
		}
		spans, err := sink.Clusters(t.Context(), noon)
		if want := map[string]table.Span{"east/1": {First: noon, Last: noon}}; err != nil || !cmp.Equal(want, spans) {
			t.Errorf("%s: clusters %v, error %v", name, spans, err)
		}
	}
	if _, err := files.OpenSerials(dir); !errors.Is(err, files.ErrLocked) {
		t.Errorf("error for a folder that is open is %v", err)
	}
}

// TestSerialsStopped stops a sink before each change of its files. Until the call is repeated, the hour must not be in
// the manifest.
func TestSerialsStopped(t *testing.T) {
	for n := 0; ; n++ {
		dir := t.TempDir()
		s, err := files.OpenSerials(dir)
		check(t, err)
		first := boards()
		check(t, s.Replace(t.Context(), first))
		later := hour(noon, 9)
		later.Revision = 2
		err = s.Stopping(n).Replace(context.Background(), later)
		filed, e := s.Filed(t.Context(), later.Cluster, noon)
		check(t, e)
		if err == nil {
			if n < 3 || filed != later.Filed {
				t.Errorf("%d changes, manifest %+v", n, filed)
			}
			check(t, s.Close())
			return
		}
		want := table.Filed{} // the first change removes the row in the manifest
		if n == 0 {
			want = first.Filed
		}
		if !errors.Is(err, files.ErrStopped) || filed != want {
			t.Errorf("stopped before change %d: error %v, manifest %+v", n, err, filed)
		}
		check(t, s.Replace(t.Context(), later))
		if got := records(tree(t, dir)); len(got) != 1 {
			t.Errorf("stopped before change %d: files %q", n, got)
		}
		check(t, s.Close())
	}
}
