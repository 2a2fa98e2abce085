package proc_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/proc"
)

type tree struct {
	t *testing.T
	proc.Tree
}

func newTree(t *testing.T) tree { return tree{t, proc.Tree{Root: t.TempDir()}} }

func (t tree) write(name, content string) {
	t.t.Helper()
	path := filepath.Join(t.Root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.t.Fatal(err)
	}
}

// The start time is in ticks.
func (t tree) start(folder string, ticks, flags int, cgroup string) {
	t.write(folder+"/stat", fmt.Sprintf("7 (x) S 1 7 7 0 -1 %d 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0\n", flags, ticks))
	t.write(folder+"/cgroup", cgroup)
}

const (
	exiting = 0x4
	kernel  = 0x200000
)

func TestTree(t *testing.T) {
	p := newTree(t)
	p.write("stat", "cpu 1 2\nbtime 1700000000\n")
	p.start("20", 5, 0, "0::/a")
	p.start("7", 5, 0, "0::/a")
	p.write("self/stat", "")
	if pids, err := p.PIDs(); err != nil || !cmp.Equal(pids, []uint32{7, 20}) {
		t.Errorf("PIDs %v, error %v; want 7 and 20", pids, err)
	}
	if at, err := p.BootTime(); err != nil || !at.Equal(time.Unix(1_700_000_000, 0)) {
		t.Errorf("boot time %v, error %v", at, err)
	}
	none := proc.Tree{Root: filepath.Join(p.Root, "none")}
	if _, err := none.PIDs(); err == nil {
		t.Error("no error for PIDs of a missing folder")
	}
	if _, err := none.BootTime(); err == nil {
		t.Error("no error for the boot time of a missing folder")
	}
}

func TestCgroup(t *testing.T) {
	st := proc.Stat{Name: "x", Start: 5}
	tests := map[string]struct {
		before proc.Stat
		setUp  func(tree)
		start  uint64 // expected start time of the cgroup's process
		text   string
		err    error
	}{
		"a process":                {st, func(p tree) { p.start("7", 5, 0, "0::/a\n") }, 5, "0::/a\n", nil},
		"a kernel thread":          {proc.Stat{Kernel: true, Start: 5}, func(p tree) { p.start("7", 5, kernel, "0::/\n") }, 5, "", nil},
		"the PID was reused":       {st, func(p tree) { p.start("7", 6, 0, "0::/b\n") }, 6, "0::/b\n", nil},
		"it ended":                 {st, func(tree) {}, 5, "", proc.ErrGone},
		"exiting in a host cgroup": {st, func(p tree) { p.start("7", 5, exiting, "0::/system.slice\n") }, 5, "0::/system.slice\n", nil},
		"exiting, v2 root":         {st, func(p tree) { p.start("7", 5, exiting, "0::/\n") }, 5, "0::/\n", nil},
		"exiting, a thread runs": {st, func(p tree) {
			p.start("7", 5, exiting, "4:memory:/\n0::/\n")
			p.start("7/task/7", 5, exiting, "4:memory:/\n")
			p.start("7/task/8", 5, 0, "4:memory:/pod\n")
		}, 5, "4:memory:/pod\n", nil},
		"exiting, no thread runs": {st, func(p tree) {
			p.start("7", 5, exiting, "4:memory:/\n")
			p.start("7/task/7", 5, exiting, "4:memory:/\n")
		}, 5, "", nil},
		"exiting, no threads": {st, func(p tree) { p.start("7", 5, exiting, "4:memory:/\n") }, 5, "", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := newTree(t)
			tt.setUp(p)
			after, text, err := p.Cgroup(7, tt.before)
			if after.Start != tt.start || text != tt.text || !errors.Is(err, tt.err) {
				t.Errorf("cgroup %q of a process with start time %d, error %v; want %q, %d, %v", text, after.Start, err, tt.text, tt.start, tt.err)
			}
		})
	}
}

// A process without a cgroup file must still be reported.
func TestNoCgroup(t *testing.T) {
	p := newTree(t)
	p.start("7", 5, 0, "")
	if err := os.Remove(p.File(7, "cgroup")); err != nil {
		t.Fatal(err)
	}
	if st, _, err := p.Cgroup(7, proc.Stat{Start: 5}); err == nil || errors.Is(err, proc.ErrGone) || st.Start != 5 {
		t.Errorf("stat %+v, error %v; want the stat and an error other than ErrGone", st, err)
	}
	p.write("7/stat", "7 (x)")
	if _, err := p.Stat(7); err == nil || errors.Is(err, proc.ErrGone) {
		t.Errorf("error of a malformed stat: %v, want an error other than ErrGone", err)
	}
}
