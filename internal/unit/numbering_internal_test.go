package unit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// eightGPUs returns GPUs that the driver numbers from 0 to 7, and whose device nodes have the numbers 7 to 0.
func eightGPUs() (devices []gpu.Device) {
	for i := range 8 {
		devices = append(devices, gpu.Device{UUID: fmt.Sprint("GPU-", i), Vendor: "NVIDIA", Index: i, DeviceNode: fmt.Sprint("nvidia", 7-i)})
	}
	return devices
}

// TestNumbering checks that the mapper detects a wrong value of --units.held-numbers and proposes the right value. In
// each case, slurm returns the GPU that a number means in Slurm. The jobs use these GPUs.
func TestNumbering(t *testing.T) {
	index := func(n int) string { return fmt.Sprint("GPU-", n) }   // AutoDetect=nvml
	node := func(n int) string { return fmt.Sprint("GPU-", 7-n) }  // File=/dev/nvidia[0-7]
	upper := func(n int) string { return fmt.Sprint("GPU-", 3-n) } // File=/dev/nvidia[4-7]
	tests := []struct {
		name, numbers string
		file          string // content of the file numbers
		slurm         func(int) string
		jobs          [][]int // numbers of each job
		want          string  // part of the error; empty if there is none
	}{
		{"index is right", "index", "", index, [][]int{{0}, {1, 2}, {7}, {4}}, ""},
		{"node is right", "minor", "", node, [][]int{{0}, {1, 2}, {7}, {4}}, ""},
		{"a list is right", "minor:4-7", "", upper, [][]int{{0}, {1}, {2, 3}}, ""},
		{"two jobs", "index", "", node, [][]int{{0}, {1}}, ""},
		{"node is right, index is set", "index", "", node, [][]int{{0}, {1, 2}, {5}}, "the GPUs that jobs 0, 1, 2 use contradict --units.held-numbers=index: minor fits; set the flag to minor, or write minor into DIR/numbers"},
		{"index is right, node is set", "minor", "", index, [][]int{{0}, {1, 2}, {5}}, "--units.held-numbers=minor: index fits"},
		{"four of eight", "minor", "", upper, [][]int{{0}, {1}, {3}}, "--units.held-numbers=minor: minor:4-7 fits"},
		{"four of eight, index is set", "index", "", upper, [][]int{{0}, {1}, {2}, {3}}, "--units.held-numbers=index: minor:4-7 fits"},
		{"a list of other nodes", "minor:2-5", "", upper, [][]int{{0}, {1}, {3}}, "--units.held-numbers=minor:2-5: minor:4-7 fits"},
		{"the file numbers", "index", "minor:4-7\n", upper, [][]int{{0}, {1}, {3}}, ""},
		{"a wrong file", "minor:4-7", "index", upper, [][]int{{0}, {1}, {3}}, "--units.held-numbers=index: minor:4-7 fits"},
		{"no meaning", "index", "", func(n int) string { return fmt.Sprint("GPU-", (n*3+1)%8) }, [][]int{{0}, {1}, {2}}, "and no other value of the flag is known to fit: compare the prolog with gres.conf"},
		{"only one number", "minor", "", func(int) string { return "GPU-5" }, [][]int{{0}, {0}, {0}}, "no other value of the flag is known to fit"},
		{"a job with GPUs that have the same number in both meanings", "index", "", func(n int) string { // the numbers 3 and 4 have both meanings
			return []string{"GPU-7", "GPU-6", "GPU-5", "GPU-3", "GPU-3", "GPU-2", "GPU-1", "GPU-0"}[n]
		}, [][]int{{0}, {1}, {3}, {5}}, "no other value of the flag is known to fit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.file != "" {
				write(t, filepath.Join(dir, "numbers"), tt.file)
			}
			var n Numbers
			if err := n.UnmarshalText([]byte(tt.numbers)); err != nil {
				t.Fatal(err)
			}
			m := Mapper{}
			for job, numbers := range tt.jobs {
				by := make(map[gpu.Owner][]string)
				var names []string
				for _, number := range numbers {
					names = append(names, fmt.Sprint(number))
					owner := gpu.Unit{Manager: Slurm, Name: fmt.Sprint(job)}.Owner()
					by[owner] = append(by[owner], tt.slurm(number))
				}
				write(t, filepath.Join(dir, "jobs", fmt.Sprint(job)), "gpus="+strings.Join(names, ",")+"\n")
				files, err := readPrologFiles(slurmDirs(dir), n)
				if err != nil {
					t.Fatal(err)
				}
				m.Used(eightGPUs(), by)
				m.numbering.compare(files.claims, 0)
			}
			err := m.numbering.check()
			if want := strings.ReplaceAll(tt.want, "DIR", dir); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q", err, want)
			}
		})
	}
}

// TestNumberingForgets checks that three jobs on the GPUs of other jobs cause an error for at most a day, if other jobs
// run during this day.
func TestNumberingForgets(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "jobs/9"), "gpus=1\n")
	var m Mapper
	poll := func(at time.Duration, used map[string]string) error {
		by := make(map[gpu.Owner][]string)
		for job, uuid := range used {
			by[gpu.Unit{Manager: Slurm, Name: job}.Owner()] = []string{uuid}
		}
		m.Used(eightGPUs(), by)
		files, err := readPrologFiles(slurmDirs(dir), Index)
		if err != nil {
			t.Fatal(err)
		}
		m.numbering.compare(files.claims, at)
		return m.numbering.check()
	}
	for _, job := range []string{"1", "2", "3"} {
		write(t, filepath.Join(dir, "jobs", job), "gpus=0\n")
	}
	if poll(0, map[string]string{"1": "GPU-5", "2": "GPU-6", "3": "GPU-4", "9": "GPU-1"}) == nil {
		t.Error("there is no error while three jobs use another GPU")
	}
	for _, job := range []string{"1", "2", "3"} {
		if err := os.Remove(filepath.Join(dir, "jobs", job)); err != nil {
			t.Fatal(err)
		}
	}
	for at := time.Hour; at <= 25*time.Hour; at += time.Hour {
		if err := poll(at, map[string]string{"9": "GPU-1"}); (err != nil) != (at <= 24*time.Hour) {
			t.Errorf("error after %v: %v", at, err)
		}
	}
	if uses := m.numbering.jobs[dir]; len(uses) != 1 || uses[0].job != "9" {
		t.Errorf("%d jobs are remembered, want only the running job", len(uses))
	}
}

func TestMalformedNumbersFile(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "numbers"), "uuid")
	write(t, filepath.Join(dir, "jobs/4711"), "gpus=0\n")
	write(t, filepath.Join(other, "1"), "4712\n")
	files, err := readPrologFiles(slurmDirs(dir, other), Index)
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "numbers")) {
		t.Errorf("error %v, want an error with the name of the file", err)
	}
	if len(files.claims) != 1 || files.claims[0].job != "4712" {
		t.Errorf("claims %+v, want only the claim from the other directory", files.claims)
	}
}

// TestNumberingOfSharedGPUs checks that jobs on a shared GPU are ignored. With jobstats, for example, the file of a GPU
// names only its last job.
func TestNumberingOfSharedGPUs(t *testing.T) {
	dir := t.TempDir()
	var m Mapper
	for i := range 3 {
		first, second := fmt.Sprint(2*i+1), fmt.Sprint(2*i+2)
		write(t, filepath.Join(dir, "0"), second+"\n") // replaces the line of the first job
		write(t, filepath.Join(dir, "1"), first+"\n")
		by := map[gpu.Owner][]string{
			gpu.Unit{Manager: Slurm, Name: first}.Owner():  {"GPU-0", "GPU-1"},
			gpu.Unit{Manager: Slurm, Name: second}.Owner(): {"GPU-0"},
		}
		files, err := readPrologFiles(slurmDirs(dir), Index)
		if err != nil {
			t.Fatal(err)
		}
		m.Used(eightGPUs(), by)
		m.numbering.compare(files.claims, 0)
	}
	if err := m.numbering.check(); err != nil {
		t.Error(err)
	}
}
