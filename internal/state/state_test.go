package state_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/state"
)

func lines(numbers ...int) iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, n := range numbers {
			if !yield(n) {
				return
			}
		}
	}
}

func load(d *state.Dir) (numbers []int, err error) {
	err = d.Load(func(_ int, record json.RawMessage) error {
		numbers = append(numbers, 0)
		return json.Unmarshal(record, &numbers[len(numbers)-1])
	})
	return numbers, err
}

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
	if _, err := load(d); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("load of a missing file: %v", err)
	}
	for _, want := range [][]int{{42, 7, 13}, nil} {
		if err := d.Save(lines(want...)); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = open(t, path, "boot-1")
		if got, err := load(d); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
}

func TestLock(t *testing.T) {
	path := t.TempDir()
	first := open(t, path, "boot-1")
	if _, err := state.Open(path, "boot-1"); !errors.Is(err, state.ErrLocked) {
		t.Errorf("second open: %v", err)
	}
	shared, err := state.Share(path)
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	if !shared.Held() {
		t.Error("Held = false while the directory is locked")
	}
	_ = first.Close()
	if shared.Held() {
		t.Error("Held = true after the directory was closed")
	}
	open(t, path, "boot-1")
}

func TestUnusable(t *testing.T) {
	const header = `{"version":3,"boot_id":"boot-1"}` + "\n"
	tests := []struct{ name, file, want string }{
		{"empty", "", "read header: EOF"},
		{"garbage", "\x00\x01\x02", "invalid character"},
		{"truncated header", `{"version":3,"boot_id":"boo`, "read header: unexpected EOF"},
		{"truncated record", header + "1\n{", "read record 1: unexpected EOF"},
		{"truncated footer", header + "1\n" + `{"records":1`, "read record 1: unexpected EOF"},
		{"truncated after the header", header, "the file is truncated"},
		{"truncated after a record", header + "1\n2\n", "the file is truncated"},
		{"without a record", header + "1\n" + `{"records":2}`, "the file contains 1 records, must contain 2"},
		{"a null footer", header + "null\n", "the file is truncated"},
		{"content after the footer", header + "1\n" + `{"records":1}` + "\n]", "invalid character"},
		{"two files", header + `{"records":0}` + "\n" + header + `{"records":0}`, "read record 0: json: cannot unmarshal object"},
		{"another boot", `{"version":3,"boot_id":"boot-0"}` + "\n" + `{"records":0}`, "written in another boot"},
		{"newer version", `{"version":4,"boot_id":"boot-1"}` + "\n" + `{"records":0}`, "version 4 was written by a newer gpuledger; this program reads versions 2 to 3; the file was renamed to "},
		{"older version", `{"version":1,"boot_id":"boot-1","data":{"Joules":1}}`, "unsupported version 1; this program reads versions 2 to 3"},
		{"a long header", `{"version":1,"boot_id":"boot-1","data":"` + strings.Repeat("x", 5000) + `"}` + "\n", "read header of at most 4096 bytes: bufio: buffer full"},
		{"other content", header + "[1]\n" + `{"records":1}`, "read record 0: json: cannot unmarshal array"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := t.TempDir()
			if err := os.WriteFile(filepath.Join(path, "ledger.json"), []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			d := open(t, path, "boot-1")
			if _, err := load(d); !errors.Is(err, state.ErrUnusable) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("load: %v, want %q", err, tt.want)
			}
			if err := d.Save(lines(1)); err != nil {
				t.Errorf("save after the load: %v", err)
			}
		})
	}
}

// For a large file of another program, Load must not need more memory than for a header.
func TestLargeFile(t *testing.T) {
	path := t.TempDir()
	file, err := os.Create(filepath.Join(path, "ledger.json"))
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	_, err1 := file.WriteString(`{"version":1,"data":"`)
	_, err2 := file.Write(bytes.Repeat([]byte("x"), size))
	if err := errors.Join(err1, err2, file.Close()); err != nil {
		t.Fatal(err)
	}
	d := open(t, path, "boot-1")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := load(d); !errors.Is(err, state.ErrUnusable) {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d bytes of memory for a file with %d bytes", took, size)
	}
}

// Load must detect a file that was truncated at any length.
func TestCutOff(t *testing.T) {
	path := t.TempDir()
	d := open(t, path, "boot-1")
	if err := d.Save(lines(1, 22, 333)); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(path, "ledger.json")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	whole = bytes.TrimRight(whole, "\n") // the removed bytes are only the end of the line and the padding of the file
	for n := range len(whole) {
		if err := os.WriteFile(name, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := load(d); !errors.Is(err, state.ErrUnusable) {
			t.Errorf("the first %d bytes of %d: %v", n, len(whole), err)
		}
	}
}

// Root can write to any file, so the test creates a folder with the name of the file.
func TestUnwritable(t *testing.T) {
	path := t.TempDir()
	d := open(t, path, "boot-1")
	if err := d.Save(lines(1)); err != nil {
		t.Fatal(err)
	}
	block := filepath.Join(path, "ledger.json.new")
	if err := os.Mkdir(block, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.Save(lines(2)); err == nil || errors.Is(err, state.ErrStale) {
		t.Errorf("save: %v", err)
	}
	if _, err := load(d); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old file was not removed: %v", err)
	}
	if err := d.Save(lines(2)); err == nil || errors.Is(err, state.ErrStale) {
		t.Errorf("save without an old file: %v", err)
	}
	stuck := filepath.Join(path, "ledger.json", "inside")
	if err := os.MkdirAll(stuck, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.Save(lines(3)); !errors.Is(err, state.ErrStale) {
		t.Errorf("save in place of a folder that cannot be removed: %v, want ErrStale", err)
	}
	if _, err := state.Open(filepath.Join(block, "..", "lock", "dir"), "boot-1"); err == nil {
		t.Error("opened a directory below a file")
	}
}

// remount mounts the small file system again with other flags.
func mount(t *testing.T) (path string, remount func(flags uintptr)) {
	t.Helper()
	path = t.TempDir()
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size=64k,mode=755"); err != nil {
		t.Skipf("the test needs a small file system, which only root can mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	return path, func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_REMOUNT|flags, "size=64k"); err != nil {
			t.Fatal(err)
		}
	}
}

// If a read-only directory was used before, its file must be loaded. After a failed save, the error must be ErrStale
// unless the file is from another boot. A read-only directory that was never used must be rejected.
func TestReadOnly(t *testing.T) {
	path, remount := mount(t)
	remount(unix.MS_RDONLY)
	if d, err := state.Open(path, "boot-1"); err == nil {
		t.Errorf("opened a new directory: %v", d.Close())
	}
	remount(0)
	d, err := state.Open(path, "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Save(lines(1, 2)), d.Close()); err != nil {
		t.Fatal(err)
	}
	remount(unix.MS_RDONLY)
	d = open(t, path, "boot-1")
	if found, err := load(d); err != nil || !slices.Equal(found, []int{1, 2}) {
		t.Errorf("loaded %v: %v", found, err)
	}
	if err := d.Save(lines(3)); !errors.Is(err, state.ErrStale) || !errors.Is(err, unix.EROFS) {
		t.Errorf("save: %v", err)
	}
	if _, err := state.Open(path, "boot-1"); !errors.Is(err, state.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, path, "boot-2")
	if _, err := load(d); !errors.Is(err, state.ErrUnusable) {
		t.Errorf("load a file of another boot: %v", err)
	}
	if err := d.Save(lines(3)); err == nil || errors.Is(err, state.ErrStale) {
		t.Errorf("save beside a file of another boot: %v", err)
	}
}

// After an incomplete write, neither a new nor an old state may remain.
func TestFullDisk(t *testing.T) {
	path, _ := mount(t)
	d := open(t, path, "boot-1")
	if err := d.Save(lines(1)); err != nil {
		t.Fatal(err)
	}
	if err := d.Save(lines(make([]int, 40_000)...)); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, state.ErrStale) {
		t.Errorf("save: %v", err)
	}
	if _, err := load(d); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file remains: %v", err)
	}
	if err := d.Save(lines(1)); err != nil {
		t.Errorf("save of a state that fits: %v", err)
	}
}

// On a full file system, saves must succeed even if the state grows. A new program must continue from the last save.
func TestNoRoom(t *testing.T) {
	path := t.TempDir()
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size=1m,mode=755"); err != nil {
		t.Skipf("the test needs a small file system, which only root can mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	d := open(t, path, "boot-1")
	for n := range 2 {
		if err := d.Save(lines(n)); err != nil {
			t.Fatal(err)
		}
	}
	occupy(t, filepath.Join(path, "filler"))
	for n := 1; n <= 20_000; n += 1000 {
		want := make([]int, n)
		want[n-1] = n
		if err := d.Save(lines(want...)); err != nil {
			t.Fatalf("save %d records: %v", n, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = open(t, path, "boot-1")
		if got, err := load(d); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%d records after a restart, %v; want %d", len(got), err, n)
		}
		occupy(t, filepath.Join(path, fmt.Sprint("filler", n)))
	}
}

func occupy(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for page := bytes.Repeat([]byte{'x'}, os.Getpagesize()); err == nil; {
		_, err = file.Write(page)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// Save must return an error for a record that cannot be written, instead of omitting it.
func TestNoRecord(t *testing.T) {
	d := open(t, t.TempDir(), "boot-1")
	if err := d.Save(slices.Values([]any{1, math.NaN(), 2})); err == nil {
		t.Error("Save returns no error for a value that is not JSON")
	}
	if _, err := load(d); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file remains: %v", err)
	}
}

func TestRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	d := open(t, path, "boot-1")
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := d.Save(lines(1)); !errors.Is(err, state.ErrGone) {
		t.Errorf("save into a removed directory: %v, want ErrGone", err)
	}
	other := open(t, path, "boot-1")
	if err := d.Save(lines(2)); !errors.Is(err, state.ErrGone) {
		t.Errorf("save into a replaced directory: %v, want ErrGone", err)
	}
	if err := other.Save(lines(3)); err != nil {
		t.Error(err)
	}
}
