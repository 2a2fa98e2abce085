package simnode_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// A graphics program and a ROCm program use one GPU. Only the open files show the busy time of graphics.
func TestFiles(t *testing.T) {
	n := open(t, "vulkan")
	run(t, n, 0, 5*time.Second, time.Second)
	sc, err := simnode.Lookup("vulkan")
	if err != nil {
		t.Fatal(err)
	}
	rows := history(t, n)
	listed := kfdProcesses(t, n)
	found := 0
	for _, p := range rows[len(rows)-1].GPUs[0].Processes {
		pid := strconv.Itoa(int(p.PID))
		graphics := p.Command == "viewer"
		if graphics == (listed[pid] != nil) {
			t.Errorf("%s: amdkfd lists %v", p.Command, listed[pid])
		}
		want := ""
		if graphics { // half of the GPU for four seconds
			want = fmt.Sprintf("drm-engine-gfx:\t%d ns", 2*time.Second)
		}
		files, _ := filepath.Glob(filepath.Join(n.Dir(), "proc", pid, "fd/*")) // the pattern is valid
		ids := make(map[string]bool)
		for _, file := range files {
			found++
			if node, err := os.Readlink(file); err != nil || node != "/dev/dri/renderD128" {
				t.Errorf("%s: open %s, %v", p.Command, node, err)
			}
			text := content(t, n, filepath.Join("proc", pid, "fdinfo", filepath.Base(file)))
			_, engines, _ := strings.Cut(text, "KiB\n")
			if strings.TrimSpace(engines) != want {
				t.Errorf("%s: engines %q, want %q", p.Command, engines, want)
			}
			_, id, _ := strings.Cut(text, "drm-client-id:\t")
			id, _, _ = strings.Cut(id, "\n")
			ids[id] = true
			if bus := "drm-pdev:\t" + filepath.Base(ofGPU(&sc.GPUs[0], "")) + "\n"; !strings.Contains(text, bus) {
				t.Errorf("%s: no %q in %q", p.Command, bus, text)
			}
		}
		if len(files) != 2 || len(ids) != 1 {
			t.Errorf("%s: %d files of %d clients, want 2 files of 1 client", p.Command, len(files), len(ids))
		}
	}
	if found != 4 {
		t.Errorf("%d open files, want 4", found)
	}
}
