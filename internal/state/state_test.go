package state_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuledger/gpuledger/internal/state"
)

type content struct{ Joules int }

func open(t *testing.T, path, boot string) *state.Dir {
	t.Helper()
	d, err := state.Open(path, boot)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "on", "demand")
	d := open(t, path, "boot-1")
	var got content
	if err := d.Load(&got); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("load of nothing: %v", err)
	}
	if err := d.Save(content{42}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path, "boot-1").Load(&got); err != nil || got.Joules != 42 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestLock(t *testing.T) {
	path := t.TempDir()
	first := open(t, path, "boot-1")
	if _, err := state.Open(path, "boot-1"); !errors.Is(err, state.ErrLocked) {
		t.Errorf("second open: %v", err)
	}
	_ = first.Close()
	open(t, path, "boot-1")
}

func TestUnusable(t *testing.T) {
	tests := []struct{ name, file string }{
		{"empty", ""},
		{"garbage", "\x00\x01\x02"},
		{"truncated", `{"version":1,"boot_id":"boot-1","data":{"Jou`},
		{"another boot", `{"version":1,"boot_id":"boot-0","data":{"Joules":1}}`},
		{"newer version", `{"version":2,"boot_id":"boot-1","data":{"Joules":1}}`},
		{"other content", `{"version":1,"boot_id":"boot-1","data":[1]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := t.TempDir()
			if err := os.WriteFile(filepath.Join(path, "ledger.json"), []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			d := open(t, path, "boot-1")
			if err := d.Load(&content{}); !errors.Is(err, state.ErrUnusable) {
				t.Errorf("load: %v", err)
			}
			if err := d.Save(content{1}); err != nil {
				t.Errorf("save after it: %v", err)
			}
		})
	}
}

// TestUnwritable uses a folder where a file must go, which stops root too.
func TestUnwritable(t *testing.T) {
	path := t.TempDir()
	d := open(t, path, "boot-1")
	if err := d.Save(content{1}); err != nil {
		t.Fatal(err)
	}
	block := filepath.Join(path, "ledger.json.new")
	if err := os.Mkdir(block, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.Save(content{2}); err == nil || errors.Is(err, state.ErrStale) {
		t.Errorf("save: %v", err)
	}
	if err := d.Load(&content{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old file is still there: %v", err)
	}
	stuck := filepath.Join(path, "ledger.json", "inside")
	if err := os.MkdirAll(stuck, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.Save(content{3}); !errors.Is(err, state.ErrStale) {
		t.Errorf("save over what cannot be removed: %v", err)
	}
	if _, err := state.Open(filepath.Join(block, "..", "lock", "dir"), "boot-1"); err == nil {
		t.Error("opened a directory below a file")
	}
}

// TestRemoved: a directory that is removed or replaced under its owner is noticed.
func TestRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	d := open(t, path, "boot-1")
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := d.Save(content{1}); !errors.Is(err, state.ErrGone) {
		t.Errorf("save into a removed directory: %v", err)
	}
	other := open(t, path, "boot-1")
	if err := d.Save(content{2}); !errors.Is(err, state.ErrGone) {
		t.Errorf("save into another's directory: %v", err)
	}
	if err := other.Save(content{3}); err != nil {
		t.Error(err)
	}
}
