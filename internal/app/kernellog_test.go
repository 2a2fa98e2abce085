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

// withKernelLog puts a record into the kernel log of a node, and runs ticks until the page matches.
func withKernelLog(t *testing.T, record, page string) *bench {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kmsg")
	if err := os.WriteFile(path, []byte(record), 0o600); err != nil {
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
	for want := regexp.MustCompile("(?m)^" + page + "$"); !want.MatchString(b.page()); {
		if ctx.Err() != nil {
			t.Fatalf("no %s:\n%s", page, b.page())
		}
		b.node.Sampler.Tick(ctx)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return b
}

// TestKernelLog checks that both metrics pages contain an XID error that occurred 5 seconds after the boot.
func TestKernelLog(t *testing.T) {
	sc, err := simnode.Lookup("dgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	uuid := sc.GPUs[0].UUID
	b := withKernelLog(t, "3,77,5000000,-;NVRM: Xid (PCI:0000:1b:00): 119, Timeout\n", `gpuledger_gpu_xid_errors_total{UUID="`+uuid+`"} 1`)
	if record := regexp.MustCompile(`gpuledger_board_xid_errors_total{.*UUID="` + uuid + `".*xid="119"} 1\n`); !record.MatchString(b.record()) {
		t.Errorf("no error in the record:\n%s", b.record())
	}
	if g := b.node.Sampler.Latest().GPUs[0]; g.UUID != uuid || !g.Events.Since.Equal(b.now.Wall.Add(5*time.Second-b.now.Boot)) {
		t.Errorf("the XID counter of %s was created at %v", g.UUID, g.Events.Since)
	}
}

func TestKernelLogOfSwitches(t *testing.T) {
	withKernelLog(t, "3,76,4000000,-;nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n",
		`gpuledger_nvswitch_sxid_errors_total{pci_bus_id="0000:c1:00.0",severity="fatal",sxid="20034"} 1`)
}
