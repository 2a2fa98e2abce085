package state_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/state"
)

// Open must reject a directory in which other users could create a file. The error must contain the remedy.
func TestFolder(t *testing.T) {
	const ok = ""
	tests := []struct {
		name     string
		mode     os.FileMode
		uid, gid int // -1 means the uid or gid of this process
		want     string
	}{
		{"created by the kubelet", 0o755, -1, -1, ok},
		{"private", 0o700, -1, -1, ok},
		{"with this process's group", 0o775, -1, -1, ok},
		{"with another group", 0o775, -1, 4711, "chmod go-w"},
		{"everybody's", 0o777, -1, -1, "other users can write to it (mode 0777): run chmod go-w on this directory, or set --state.path"},
		{"sticky", 0o777 | os.ModeSticky, -1, -1, "chmod go-w"},
		{"with another owner", 0o755, 4711, -1, "the directory is owned by uid 4711, but must be owned by uid "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := t.TempDir()
			if err := errors.Join(os.WriteFile(filepath.Join(path, "lock"), nil, 0o600), os.Chmod(path, tt.mode)); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(path, tt.uid, tt.gid); err != nil {
				t.Skipf("only root can change the owner of a folder: %v", err)
			}
			d, err := state.Open(path, "boot-1")
			if err == nil {
				_ = d.Close()
			}
			if (err == nil) != (tt.want == ok) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("open: %v, want %q", err, tt.want)
			}
			shared, err := state.Share(path)
			if err == nil {
				_ = shared.Close()
			}
			if (err == nil) != (tt.want == ok) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("share: %v, want %q", err, tt.want)
			}
		})
	}
}

// A link or a pipe may have the name of a state file. The program must not follow the link. The pipe must not block it.
func TestLinks(t *testing.T) {
	link := func(target string) func(string) error {
		return func(name string) error { return os.Symlink(target, name) }
	}
	pipe := func(name string) error { return unix.Mkfifo(name, 0o600) }
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, file string
		make       func(string) error
		want       string // expected error from Save
	}{
		{"next file links to another file", "ledger.json.new", link(victim), "ledger.json.new is not a regular file but L"},
		{"next file links to a missing file", "ledger.json.new", link(victim + "-2"), "ledger.json.new is not a regular file but L"},
		{"next file is a pipe", "ledger.json.new", pipe, "ledger.json.new is not a regular file but p"},
		{"file links to another file", "ledger.json", link(victim), ""},
		{"file is a pipe", "ledger.json", pipe, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := t.TempDir()
			d := open(t, path, "boot-1")
			if err := tt.make(filepath.Join(path, tt.file)); err != nil {
				t.Fatal(err)
			}
			if _, err := load(d); err == nil {
				t.Error("Load returned no error")
			}
			err := d.Save(lines(42))
			switch {
			case tt.want == "":
				if got, err := load(d); err != nil || !slices.Equal(got, []int{42}) {
					t.Errorf("load after save: %v, %v", got, err)
				}
			case err == nil || !strings.Contains(err.Error(), tt.want):
				t.Errorf("save: %v, want %q", err, tt.want)
			}
			if got, err := os.ReadFile(victim); string(got) != "theirs" {
				t.Errorf("the linked file contains %q, error %v", got, err)
			}
			if _, err := os.Lstat(victim + "-2"); err == nil {
				t.Error("a file was created outside the directory")
			}
		})
	}
}

// The incomplete file of a killed program must not prevent a save.
func TestLeftover(t *testing.T) {
	path := t.TempDir()
	d := open(t, path, "boot-1")
	if err := os.WriteFile(filepath.Join(path, "ledger.json.new"), []byte("half a st"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Save(lines(42)); err != nil {
		t.Fatal(err)
	}
	if got, err := load(d); err != nil || !slices.Equal(got, []int{42}) {
		t.Errorf("load: %v, %v", got, err)
	}
}

// Load must not read a very long record into memory. Save must not write a record that Load would reject.
func TestLongRecord(t *testing.T) {
	path := t.TempDir()
	d := open(t, path, "boot-1")
	const size = 16 << 20
	file := `{"version":3,"boot_id":"boot-1"}` + "\n\"" + strings.Repeat("x", size) + "\"\n" + `{"records":1}`
	if err := os.WriteFile(filepath.Join(path, "ledger.json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := load(d); !errors.Is(err, state.ErrUnusable) || !errors.Is(err, state.ErrOversized) || !strings.Contains(err.Error(), "read record 0: more than 262144 bytes") {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 2<<20 {
		t.Errorf("%d bytes of memory for a record with %d bytes", took, size)
	}
	if err := d.Save(slices.Values([]any{strings.Repeat("x", size)})); err == nil || !strings.Contains(err.Error(), "a record of ") {
		t.Errorf("save: %v", err)
	}
}

func TestLongFile(t *testing.T) {
	d := open(t, t.TempDir(), "boot-1")
	endless := func(yield func(any) bool) {
		for yield(strings.Repeat("x", 100_000)) {
		}
	}
	if err := d.Save(endless); err == nil || !strings.Contains(err.Error(), "more than 33554432 bytes") {
		t.Errorf("save: %v", err)
	}
	var records int
	if err := d.Save(func(yield func(any) bool) {
		for range 300 {
			yield(strings.Repeat("x", 100_000))
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.Load(func(int, json.RawMessage) error { records++; return nil }); err != nil || records != 300 {
		t.Errorf("%d records, %v", records, err)
	}
}
