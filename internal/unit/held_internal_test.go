package unit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

func holders(files prologFiles) map[string][]string {
	of := make(map[string][]string)
	for _, c := range files.claims {
		key := strings.TrimSpace(deviceKey(c.device))
		of[key] = append(of[key], string(c.job))
	}
	return of
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPrologFiles checks the file formats of jobstats, dcgm-exporter and gpuledger's prolog.
func TestPrologFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		".4715":       "4715\n",
		"0":           "4711 1001\n",
		"GPU-5d2f9a6": "4711 1001",
		"MIG-5d2f9a6": "4712\n",
		"1.7":         "4712\n4713\n\n",
		"2":           "",
		"readme.txt":  "4711\n",
		".0":          "4711\n",
		"jobs/4714":   "uid=1002\nuser=ada\naccount=physics\npartition=gpu\ncluster=alps\nsluid=s8FXKTA79XAR00\ngpus=3,GPU-77,,NoDevFiles\nname=\xff\nqos=x",
		"jobs/x":      "gpus=7\n",
	} {
		write(t, filepath.Join(dir, name), content)
	}
	files, err := readPrologFiles(slurmDirs(dir, filepath.Join(dir, "missing")), Index)
	if err != nil {
		t.Error(err)
	}
	want := map[string][]string{
		"0": {"4711"}, "GPU-5d2f9a6": {"4711"}, "MIG-5d2f9a6": {"4712"}, "1.7": {"4712", "4713"}, "3": {"4714"}, "GPU-77": {"4714"},
	}
	if diff := cmp.Diff(want, holders(files)); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	infos := map[jobKey]gpu.UnitInfo{
		"4711": {UID: "1001"},
		"4714": {UID: "1002", User: "ada", Account: "physics", Partition: "gpu", Cluster: "alps", SLUID: "s8FXKTA79XAR00"},
	}
	if diff := cmp.Diff(infos, files.infos); diff != "" {
		t.Errorf("infos (-want +got):\n%s", diff)
	}
	files, _ = readPrologFiles(slurmDirs(dir), Minor)
	if got := holders(files)["nvidia0"]; len(got) != 1 {
		t.Errorf("holders by minor number: %v", holders(files))
	}
}

// TestMalformedNames checks that the mapper counts and reports malformed GPU names, and uses the other names in the
// files.
func TestMalformedNames(t *testing.T) {
	tests := []struct {
		name    string
		files   map[string]string
		want    string // part of the error; empty if there is none
		holders map[string][]string
	}{
		{"a range", map[string]string{"jobs/4711": "gpus=0,2-3\naccount=physics\n"}, `malformed GPU names (1, the first is "2-3" in DIR/jobs/4711): `, map[string][]string{"0": {"4711"}}},
		{"two jobs", map[string]string{"jobs/1": "gpus=[0-1]", "jobs/2": "gpus=gpu:2,1"}, `malformed GPU names (2, the first is "[0-1]" in DIR/jobs/1): `, map[string][]string{"1": {"2"}}},
		{"a path", map[string]string{"jobs/4711": "gpus=../0"}, `"../0"`, map[string][]string{}},
		{"a space", map[string]string{"jobs/4711": "gpus=0, 1"}, `" 1"`, map[string][]string{"0": {"4711"}}},
		{"a high number", map[string]string{"1000": "4711", "2": "4711"}, `the first is "1000" in DIR): `, map[string][]string{"2": {"4711"}}},
		{"a range as the name of a file", map[string]string{"2-3": "4711"}, `"2-3" in DIR): `, map[string][]string{}},
		{"a long name", map[string]string{"jobs/4711": "gpus=" + strings.Repeat("x", 1000)}, `the first is "` + strings.Repeat("x", 40) + `" in`, map[string][]string{}},
		{"no GPUs", map[string]string{"jobs/4711": "gpus=\n", "jobs/4712": "gpus=NoDevFiles\n", "readme": "x", ".2-3": "x"}, "", map[string][]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range tt.files {
				write(t, filepath.Join(dir, name), content)
			}
			files, err := readPrologFiles(slurmDirs(dir), Index)
			if want := strings.ReplaceAll(tt.want, "DIR", dir); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q", err, want)
			}
			if diff := cmp.Diff(tt.holders, holders(files)); diff != "" {
				t.Errorf("holders (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNumbersOfAMD checks the names of AMD's GPUs. A number is the position of a GPU. A number that is too large for a
// position is the number of a render node.
func TestNumbersOfAMD(t *testing.T) {
	position := func(n int) gpu.DeviceName { return gpu.DeviceName{Position: &n} }
	render := func(n string) gpu.DeviceName { return gpu.DeviceName{Node: "dri/renderD" + n} }
	for _, tt := range []struct {
		name    string
		numbers Numbers
		want    gpu.DeviceName
	}{
		{"0", AMD, position(0)},
		{"127", AMD, position(127)},
		{"128", AMD, render("128")},
		{"0136", AMD, gpu.DeviceName{}},
		{"128", Index, render("128")},
		{"135", Minor, render("135")},
		{"127", Minor, gpu.DeviceName{Node: "nvidia127"}},
		{"3", Index, gpu.DeviceName{Index: new(3)}},
		{"GPU-77", AMD, gpu.DeviceName{UUID: "GPU-77"}},
	} {
		if got, _ := parseDevice(tt.name, tt.numbers); !cmp.Equal(got, tt.want) {
			t.Errorf("%s, %v: %+v, want %+v", tt.name, tt.numbers, got, tt.want)
		}
	}
}

// TestNumbers checks which device node a number means for each value of --units.held-numbers. With
// File=/dev/nvidia[4-7] in gres.conf, the first GPU has the number 0.
func TestNumbers(t *testing.T) {
	for _, tt := range []struct{ text, number, want string }{
		{"index", "4", "index 4"},
		{"minor", "4", "nvidia4"},
		{"minor:4,5,6,7", "0", "nvidia4"},
		{"minor:4,5,6,7", "3", "nvidia7"},
		{"minor:4,5,6,7", "4", ""},
		{"minor:0-1,6-7,3", "2", "nvidia6"},
		{"minor:0-1,6-7,3", "4", "nvidia3"},
		{"minor:4-7", "130", "dri/renderD130"},
	} {
		var n Numbers
		if err := n.UnmarshalText([]byte(tt.text)); err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		d, _ := parseDevice(tt.number, n)
		got := d.Node
		if d.Index != nil {
			got = fmt.Sprint("index ", *d.Index)
		}
		if got != tt.want {
			t.Errorf("%s: the number %s refers to %q, want %q", tt.text, tt.number, got, tt.want)
		}
		text, err := n.MarshalText()
		var again Numbers
		if err != nil || again.UnmarshalText(text) != nil || !slices.Equal(n.nodes, again.nodes) || n.meaning != again.meaning {
			t.Errorf("%s is written as %s", tt.text, text)
		}
	}
	for _, text := range []string{"", "uuid", "index:1", "amd:0", "minor:", "minor:a", "minor:4-", "minor:7-4", "minor:1,,2", "minor:-1", "minor:0-1000", "minor:+1"} {
		if err := new(Numbers).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestBadPrologFiles checks that an invalid file is reported and ignored, and that the other files are still read.
func TestBadPrologFiles(t *testing.T) {
	tests := []struct {
		name, want string
		make       func(path string) error
	}{
		{"huge", "more than 4096 bytes", func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("1\n", 4000)), 0o644) }},
		{"garbage", "malformed line", func(path string) error { return os.WriteFile(path, []byte("4711 1001 x\n"), 0o644) }},
		{"binary", "malformed line", func(path string) error { return os.WriteFile(path, []byte("\x00\xff\n4711"), 0o644) }},
		{"a number that is too long", "malformed line", func(path string) error { return os.WriteFile(path, []byte("47110000000\n"), 0o644) }},
		{"too many jobs", "at most 64 lines", func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("1\n", 65)), 0o644) }},
		{"a pipe", "must be a regular file", func(path string) error { return syscall.Mkfifo(path, 0o644) }},
		{"a link", "must not be a symbolic link", func(path string) error { return os.Symlink("/etc/hostname", path) }},
		{"a directory", "must be a regular file", func(path string) error { return os.Mkdir(path, 0o755) }},
		{"a file that other users can write", "must be writable by its owner only", func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("4711\n"), 0o666), os.Chmod(path, 0o666))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "0"), "4711\n")
			write(t, filepath.Join(dir, "2"), "4712\n")
			if err := tt.make(filepath.Join(dir, "1")); err != nil {
				t.Fatal(err)
			}
			files, err := readPrologFiles(slurmDirs(dir), Index)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if diff := cmp.Diff(map[string][]string{"0": {"4711"}, "1": {""}, "2": {"4712"}}, holders(files)); diff != "" {
				t.Errorf("holders (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUntrustedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "held")
	write(t, filepath.Join(dir, "0"), "4711\n")
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	files, err := readPrologFiles(slurmDirs(dir), Index)
	if err == nil || errors.Is(err, fs.ErrNotExist) || len(files.claims) > 0 {
		t.Errorf("%d holders, error %v", len(files.claims), err)
	}
}

func FuzzHolders(f *testing.F) {
	f.Add("4711 1001\n")
	f.Add("4711\n4712\n\n")
	f.Add("-1\n")
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := parseHolders(text, Slurm)
		if err != nil && jobs != nil || len(jobs) > maxHeldLines {
			t.Errorf("%d jobs, error %v", len(jobs), err)
		}
		for _, j := range jobs {
			if !isNumber(string(j.job)) && !strings.Contains(string(j.job), "/") || j.uid != "" && !isNumber(j.uid) {
				t.Errorf("job %q of the user %q", j.job, j.uid)
			}
		}
	})
}

func FuzzDeviceName(f *testing.F) {
	for _, s := range []string{"0", "0.7", "GPU-x", "MIG-x", "..", "1.", "all", "0:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, n := range []Numbers{Index, Minor, AMD} {
			if d, ok := parseDevice(name, n); ok && (d == gpu.DeviceName{}) || ok && strings.ContainsAny(name, "/\n") && d.UUID == "" {
				t.Errorf("parseDevice(%q) = %+v, %v", name, d, ok)
			}
		}
		for _, d := range requested(name) {
			if d.Index != nil && (*d.Index < 0 || *d.Index > 999) {
				t.Errorf("requested(%q) has the index %d", name, *d.Index)
			}
		}
	})
}

// BenchmarkPrologFiles reads the files of eight GPUs and of the jobs that hold them. In the second case, the
// directory also contains the files of ended jobs.
func BenchmarkPrologFiles(b *testing.B) {
	for _, jobs := range []int{8, 1000} {
		b.Run(fmt.Sprintf("%d jobs", jobs), func(b *testing.B) {
			dir := b.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "jobs"), 0o755); err != nil {
				b.Fatal(err)
			}
			files := make(map[string]string)
			for i := range 8 {
				files[fmt.Sprintf("GPU-%08d-0000-4000-8000-000000000000", i)] = fmt.Sprintf("%d 1001\n", 4711+i)
			}
			for i := range jobs {
				files[fmt.Sprintf("jobs/%d", 4711+i)] = "user=ada\nuid=1001\naccount=physics\npartition=gpu\n"
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				got, err := readPrologFiles(slurmDirs(dir), Index)
				if err != nil || len(got.claims) != 8 || len(got.infos) != jobs {
					b.Fatalf("%d claims and %d jobs, error %v", len(got.claims), len(got.infos), err)
				}
			}
		})
	}
}
