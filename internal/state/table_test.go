package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/state"
)

// A table must be valid in the next boot, even if a program was killed while it saved the table.
func TestTable(t *testing.T) {
	path := t.TempDir()
	d := open(t, path, "boot-1")
	if err := d.SaveTable(state.IdlePowers, []int{1, 2}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(path, "idle-power.json.new"))
	d = open(t, path, "boot-2")
	var got []int
	if err := d.LoadTable(state.IdlePowers, &got, func() error { return nil }); err != nil || len(got) != 2 || got[1] != 2 {
		t.Fatalf("loaded %v, %v", got, err)
	}
	if err := d.SaveTable(state.IdlePowers, []int{3}); err != nil {
		t.Fatal(err)
	}
	got = nil
	if err := d.LoadTable(state.IdlePowers, &got, func() error { return nil }); err != nil || len(got) != 1 || got[0] != 3 {
		t.Errorf("loaded %v, %v", got, err)
	}
}

// SaveTable must not replace a table by a file that LoadTable would reject.
func TestTableTooLarge(t *testing.T) {
	path := t.TempDir()
	d := open(t, path, "boot-1")
	if err := d.SaveTable(state.IdlePowers, "kept"); err != nil {
		t.Fatal(err)
	}
	if err := d.SaveTable(state.IdlePowers, strings.Repeat("x", 64<<10)); !errors.Is(err, state.ErrOversized) {
		t.Errorf("error %v, want %v", err, state.ErrOversized)
	}
	if kept, err := os.ReadFile(filepath.Join(path, "idle-power.json")); err != nil || string(kept) != "\"kept\"\n" {
		t.Errorf("the table contains %q, error %v", kept, err)
	}
}
