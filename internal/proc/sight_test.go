package proc_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gpuledger/gpuledger/internal/proc"
)

func TestBlind(t *testing.T) {
	root := t.TempDir()
	s := proc.Sight{Tree: proc.Tree{Root: root}}
	add := func(pid int) {
		t.Helper()
		dir := filepath.Join(root, strconv.Itoa(pid))
		stat := strconv.Itoa(pid) + " (init) S 0 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 7 0 0"
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(pid string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(root, pid)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name  string
		do    func()
		blind bool
	}{
		{"empty from the start", func() {}, false},
		{"processes without process 1", func() { add(40) }, false},
		{"process 1 appears", func() { add(1) }, false},
		{"another process ends", func() { remove("40") }, false},
		{"process 1 is hidden", func() { remove("1"); add(40) }, true},
		{"process 1 appears again", func() { add(1) }, false},
		{"not mounted", func() { remove("") }, true},
	} {
		if step.do(); s.Blind() != step.blind {
			t.Errorf("%s: blind %t, want %t", step.name, !step.blind, step.blind)
		}
	}
}
