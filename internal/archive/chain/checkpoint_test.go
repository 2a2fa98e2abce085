package chain_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
)

// TestTornLine cuts a line at every byte, as a crash or a full disk can do. The cut line must not hide any other
// checkpoint, before or after the next checkpoint is published. If a line is invalid for another reason, it must still
// cause an error.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoints.jsonl")
	of := func(sequence int64) chain.Checkpoint {
		return chain.Checkpoint{Sink: "folder", Cluster: "east", Sequence: sequence, Hash: "00ff", Time: time.Date(2026, 10, 1, 0, 5, 0, 0, time.UTC), Key: "key", Signature: "c2ln"}
	}
	publish := func(c chain.Checkpoint) {
		t.Helper()
		if err := chain.Publish(t.Context(), "file://"+path, "", c); err != nil {
			t.Fatal(err)
		}
	}
	published := func() (sequences []int64, err error) {
		all, err := chain.Published(t.Context(), "file://"+path, "", "")
		for _, c := range all {
			sequences = append(sequences, c.Sequence)
		}
		return sequences, err
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	publish(of(1))
	line, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(line) - 1 {
		for _, torn := range []string{string(line[:cut]), string(line[:cut]) + strings.Repeat("\x00", len(line)-cut)} {
			write(string(line) + torn)
			if got, err := published(); err != nil || !slices.Equal(got, []int64{1}) {
				t.Fatalf("after %q: checkpoints %v, error %v", torn, got, err)
			}
			publish(of(2))
			if got, err := published(); err != nil || !slices.Equal(got, []int64{1, 2}) {
				t.Fatalf("after %q and another checkpoint: checkpoints %v, error %v", torn, got, err)
			}
		}
	}
	for _, other := range []string{"text\n", `{"sequence":"2"}` + "\n", "{} {}\n", `{"sequence":x`} {
		write(string(line) + other)
		if got, err := published(); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("after %q: checkpoints %v, error %v", other, got, err)
		}
	}
}
