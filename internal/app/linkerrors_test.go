package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// readLinks makes the driver report receive errors for the first two links of each GPU (nvml.h,
// NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS is 208). It reads the node, and returns the number of a GPU's errors on
// /metrics/record.
func (b *bench) readLinks(uuid string, errors [2]int) float64 {
	b.t.Helper()
	for range 11 { // health values are read every ten seconds
		b.step()
	}
	file := filepath.Join(b.world.Dir(), "driver", "state.tsv")
	state, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	counters := fmt.Sprintf("\tfield208=%d\tfield208.1=%d\t", errors[0], errors[1])
	state = regexp.MustCompile(`\tfield208=\d+\tfield208\.1=\d+\t`).ReplaceAll(state, []byte(counters))
	if err := os.WriteFile(file+".test", state, 0o644); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(file+".test", file); err != nil {
		b.t.Fatal(err)
	}
	b.node.Sampler.Tick(b.t.Context())
	found := regexp.MustCompile(`gpuledger_board_nvlink_errors_total\{UUID="` + uuid + `".*\} (\S+)`).FindStringSubmatch(b.record())
	if found == nil {
		b.t.Fatal("the record has no errors of NVLink")
	}
	var n float64
	if _, err := fmt.Sscan(found[1], &n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// TestLinkErrorsContinue restarts the counter of one link from 0, with and without a restart of the exporter. The total
// number of link errors must not decrease, because the archive would then count the errors of all links again.
func TestLinkErrorsContinue(t *testing.T) {
	b := newBench(t, "gb200", false)
	b.run(1)
	uuid := b.gpus()[0].UUID
	for i, tt := range []struct {
		errors  [2]int
		restart bool // whether the exporter restarts before the reading
		want    float64
	}{
		{errors: [2]int{100, 1000}, want: 1100},
		{errors: [2]int{105, 1000}, want: 1105},
		{errors: [2]int{2, 1000}, want: 1107}, // the counter of link 0 restarted from 0
		{errors: [2]int{2, 1000}, restart: true, want: 1107},
		{errors: [2]int{2, 1003}, want: 1110},
		{errors: [2]int{0, 4}, restart: true, want: 1114}, // the driver was reloaded before the restart
	} {
		if tt.restart {
			b.stop()
			b.start()
		}
		if got := b.readLinks(uuid, tt.errors); got != tt.want {
			t.Errorf("reading %d: %v errors, want %v", i, got, tt.want)
		}
	}
}

// TestLinkErrorsOfOldState checks the state file of a version that did not save the errors of each link. After the
// restart, the counts must begin with the driver's values, and the GPU's energy must continue.
func TestLinkErrorsOfOldState(t *testing.T) {
	b := newBench(t, "gb200", false)
	b.run(1)
	uuid := b.gpus()[0].UUID
	b.readLinks(uuid, [2]int{100, 1000})
	energy := b.gpus()[0].Book.Energy
	b.stop()
	file := filepath.Join(b.cfg.StatePath, "ledger.json")
	state, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	old := regexp.MustCompile(`,"counts":\{("[^"]*":\{[^}]*\},?)*\}`).ReplaceAll(state, nil)
	if len(old) == len(state) {
		t.Fatal("the state file contains no counts of links")
	}
	if err := os.WriteFile(file, old, 0o600); err != nil {
		t.Fatal(err)
	}
	b.start()
	if got := b.readLinks(uuid, [2]int{101, 1002}); got != 1103 || b.gpus()[0].Book.Energy < energy {
		t.Errorf("%v errors, want 1103; energy %v, before %v", got, b.gpus()[0].Book.Energy, energy)
	}
}
