package state_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuledger/gpuledger/internal/state"
)

func TestRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gpuledger")
	if err := state.Remove(path); err != nil {
		t.Errorf("Remove of a missing directory: %v", err)
	}
	d := open(t, path, "boot-1")
	if err := d.Save(lines(42)); err != nil {
		t.Fatal(err)
	}
	if err := state.Remove(path); !errors.Is(err, state.ErrLocked) {
		t.Errorf("Remove while the directory is locked: %v, want ErrLocked", err)
	}
	if kept, err := load(d); err != nil || len(kept) != 1 {
		t.Errorf("the file of a running exporter was removed: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := state.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was not removed: %v", err)
	}
}

// Remove must also remove the incomplete file of a killed process and the file of a newer version.
func TestRemoveLeftovers(t *testing.T) {
	path := t.TempDir()
	write(t, filepath.Join(path, "ledger.json.new"))
	write(t, filepath.Join(path, "ledger.json.newer"))
	for _, table := range []string{"idle-power.json", "idle-power.json.new", "idle-power.json.bad", "jobs.json", "jobs.json.new", "jobs.json.bad"} {
		write(t, filepath.Join(path, table))
	}
	if err := state.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was not removed: %v", err)
	}
}

// With a wrong path, Remove must not remove a file of another program.
func TestRemoveOthers(t *testing.T) {
	path := t.TempDir()
	other := filepath.Join(path, "other")
	write(t, other)
	if err := state.Remove(path); err == nil {
		t.Error("Remove of a directory with a file of another program returns no error")
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
