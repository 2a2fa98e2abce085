package app_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// TestKernelLog shows an error of 5 seconds after the boot on the page and in the record.
func TestKernelLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kmsg")
	if err := os.WriteFile(path, []byte("3,77,5000000,-;NVRM: Xid (PCI:0000:1b:00): 119, Timeout\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sc, err := simnode.Lookup("dgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	b := benchOf(t, sc, false, "--xid.kernel-log="+path)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.node.Kernel.Run(ctx) }()
	uuid := sc.GPUs[0].UUID
	for total := regexp.MustCompile(`(?m)^gpuledger_gpu_xid_errors_total{UUID="` + uuid + `"} 1$`); ctx.Err() == nil; {
		b.node.Sampler.Tick(ctx)
		if total.MatchString(b.page()) {
			break
		}
	}
	if record := regexp.MustCompile(`gpuledger_board_xid_errors_total{.*UUID="` + uuid + `".*xid="119"} 1\n`); !record.MatchString(b.record()) {
		t.Errorf("no error in the record:\n%s", b.record())
	}
	if g := b.node.Sampler.Latest().GPUs[0]; g.UUID != uuid || !g.Events.Since.Equal(b.now.Wall.Add(5*time.Second-b.now.Boot)) {
		t.Errorf("errors of %s count since %v", g.UUID, g.Events.Since)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
