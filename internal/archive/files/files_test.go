package files_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// hour returns an hour with a GPU and a pod.
func hour(start time.Time, energy int64) *fold.Hour {
	return &fold.Hour{
		Cluster: "east/1", Start: start,
		GPUs:    []fold.GPU{{Node: "a", UUID: "GPU-1", Serial: "S1", First: start.Add(time.Second), Last: start.Add(time.Hour), Scrapes: 60, Energy: energy, XIDs: map[string]int64{"79": 1, "31": 2}}},
		Charges: []fold.Charge{{Node: "a", UUID: "GPU-1", Serial: "S1", Namespace: "ml", Pod: "p, \"q\"", PodUID: "u", Energy: energy, Held: 3_600_000}},
	}
}

func open(t *testing.T, path string, formats ...string) *files.Folder {
	t.Helper()
	if formats == nil {
		formats = []string{"csv"}
	}
	f, err := files.Open(path, formats)
	check(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree returns the content of all files by path.
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

// TestFiles checks the files of two hours.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	check(t, f.Replace(t.Context(), hour(noon.Add(time.Hour), 5)))
	check(t, f.Replace(t.Context(), hour(noon, 7)))
	const day = "cluster=east%2F1/date=2026-03-01/"
	got := tree(t, dir)
	want := map[string]string{
		".lock": "",
		"gpu_hours/" + day + "gpu_hours.csv": `cluster,hour,node,uuid,serial,chassis_serial,chassis_slot,tray_index,pci_bus_id,model,system_uuid,first_seen,last_seen,scrapes,energy_mj,energy_source,energy_scope,xids,losses,energy_resets,remapped_correctable,remapped_uncorrectable
east/1,2026-03-01T12:00:00.000Z,a,GPU-1,S1,,,,,,,2026-03-01T12:00:01.000Z,2026-03-01T13:00:00.000Z,60,7,,,31=2 79=1,0,0,0,0
east/1,2026-03-01T13:00:00.000Z,a,GPU-1,S1,,,,,,,2026-03-01T13:00:01.000Z,2026-03-01T14:00:00.000Z,60,5,,,31=2 79=1,0,0,0,0
`,
		"charges/" + day + "charges.csv": `cluster,hour,node,uuid,serial,namespace,pod,pod_uid,reason,energy_mj,exclusive_mj,idle_mj,held_ms,gpu_ms,active_ms
east/1,2026-03-01T12:00:00.000Z,a,GPU-1,S1,ml,"p, ""q""",u,,7,0,0,3600000,0,0
east/1,2026-03-01T13:00:00.000Z,a,GPU-1,S1,ml,"p, ""q""",u,,5,0,0,3600000,0,0
`,
		"hours/" + day + "hours.csv": `cluster,hour,gpus,charges,energy_mj,scrapes,digest
east/1,2026-03-01T12:00:00.000Z,1,1,7,60,` + table.Digest(hour(noon, 7)) + `
east/1,2026-03-01T13:00:00.000Z,1,1,5,60,` + table.Digest(hour(noon.Add(time.Hour), 5)) + "\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestReplace checks that Replace replaces an hour and keeps other hours, and that Filed returns
// the digest of a filed hour.
func TestReplace(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	f, want := open(t, dir), open(t, other)
	for _, h := range []*fold.Hour{hour(noon, 7), hour(noon.Add(time.Hour), 5), hour(noon, 9), hour(noon, 9)} {
		check(t, f.Replace(t.Context(), h))
	}
	check(t, want.Replace(t.Context(), hour(noon, 9)))
	check(t, want.Replace(t.Context(), hour(noon.Add(time.Hour), 5)))
	if diff := cmp.Diff(tree(t, other), tree(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for at, want := range map[time.Time]string{noon: table.Digest(hour(noon, 9)), noon.Add(2 * time.Hour): "", noon.AddDate(0, 0, 1): ""} {
		if digest, err := f.Filed(t.Context(), "east/1", at); err != nil || digest != want {
			t.Errorf("%s: digest %q, error %v, want %q", at, digest, err, want)
		}
	}
}

// TestLock checks that two processes cannot write to one folder.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if _, err := files.Open(dir, []string{"csv"}); err == nil || !strings.Contains(err.Error(), "another gpuledger-archive") {
		t.Errorf("error of a locked folder is %v", err)
	}
}

// TestOtherColumns checks that a file of another version is not changed.
func TestOtherColumns(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	check(t, f.Replace(t.Context(), hour(noon, 7)))
	path := filepath.Join(dir, "charges/cluster=east%2F1/date=2026-03-01/charges.csv")
	check(t, os.WriteFile(path, []byte("cluster,hour,more\n"), 0o600))
	if err := f.Replace(t.Context(), hour(noon, 8)); err == nil || !strings.Contains(err.Error(), "other columns") {
		t.Errorf("error of a file with other columns is %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "cluster,hour,more\n" {
		t.Errorf("file was changed to %q, error %v", text, err)
	}
}

// TestFormats checks that the files of a format do not depend on other formats, and that an hour is
// filed only if all formats have it.
func TestFormats(t *testing.T) {
	both, csv, again := t.TempDir(), t.TempDir(), t.TempDir()
	first, second, third := open(t, both, files.Formats()...), open(t, csv), open(t, again, "parquet")
	unseen := hour(noon, 7)
	unseen.GPUs[0].First, unseen.GPUs[0].Last, unseen.GPUs[0].Scrapes = time.Time{}, time.Time{}, 0
	for _, h := range []*fold.Hour{hour(noon.Add(time.Hour), 5), unseen} {
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
	if parquet != 3 {
		t.Errorf("%d Parquet files, want 3", parquet)
	}
	check(t, os.Remove(filepath.Join(both, "hours/cluster=east%2F1/date=2026-03-01/hours.parquet")))
	if digest, err := first.Filed(t.Context(), "east/1", noon); err != nil || digest != "" {
		t.Errorf("digest without the Parquet file is %q, error %v, want none", digest, err)
	}
	if _, err := files.Open(t.TempDir(), []string{"xml"}); err == nil || !strings.Contains(err.Error(), "csv, parquet") {
		t.Errorf("error of an unknown format is %v", err)
	}
}

// TestParquet checks that rows are unchanged after they are written to a file and read from it.
func TestParquet(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for _, energy := range []int64{7, -1, 1 << 60} {
		f, err := files.Open(dir, []string{"parquet"})
		check(t, err)
		check(t, f.Replace(t.Context(), hour(noon.Add(time.Duration(energy&3)*time.Hour), energy)))
		check(t, f.Close())
	}
	f := open(t, other, "parquet")
	for _, energy := range []int64{1 << 60, -1, 7} { // 7 and -1 are the same hour
		check(t, f.Replace(t.Context(), hour(noon.Add(time.Duration(energy&3)*time.Hour), energy)))
	}
	if digest, err := f.Filed(t.Context(), "east/1", noon.Add(3*time.Hour)); err != nil || digest != table.Digest(hour(noon.Add(3*time.Hour), 7)) {
		t.Errorf("digest is %q, error %v, want that of the last hour", digest, err)
	}
}
