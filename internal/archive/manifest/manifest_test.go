package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/manifest"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var noon = sinktest.Noon

var check = fatal.If

func open(t *testing.T, path string) *manifest.Manifest {
	t.Helper()
	m, err := manifest.Open(path)
	check(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// TestFile cuts the manifest at each byte, as a crash can do. For each hour, the last complete line must be found.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "filed")
	first, second, next := sinktest.Hour(noon, 7), sinktest.Hour(noon, 9), sinktest.Hour(noon.Add(time.Hour), 5)
	second.Revision, second.Reason = 2, "rack 7 was moved"
	m := open(t, path)
	for _, h := range []*table.Hour{first, next, second} {
		check(t, m.Add(h))
	}
	check(t, m.Close())
	text, err := os.ReadFile(path)
	check(t, err)
	before := strings.LastIndex(strings.TrimSpace(string(text)), "\n") + 1
	for end := before; end <= len(text); end++ {
		check(t, os.WriteFile(path, text[:end], 0o600))
		want := first
		if end == len(text) {
			want = second
		}
		m := open(t, path)
		if got := m.Filed(first.Cluster, noon); got != want.Filed {
			t.Fatalf("after %d of %d bytes %+v, want %+v", end, len(text), got, want.Filed)
		}
		if got := m.Filed(first.Cluster, next.Start); got != next.Filed {
			t.Fatalf("after %d bytes the other hour has %+v", end, got)
		}
		if got := m.Filed("another", noon); got != (table.Filed{}) {
			t.Errorf("another cluster has %+v", got)
		}
		check(t, m.Add(second))
		check(t, m.Close())
		m = open(t, path)
		if got := m.Filed(first.Cluster, noon.In(time.FixedZone("", 3600))); got != second.Filed {
			t.Fatalf("after %d bytes and a repetition %+v, want %+v", end, got, second.Filed)
		}
		check(t, m.Close())
	}
}

func TestMemory(t *testing.T) {
	var m manifest.Manifest
	h := sinktest.Hour(noon, 7)
	if got := m.Filed(h.Cluster, noon); got != (table.Filed{}) {
		t.Errorf("an empty manifest has %+v", got)
	}
	check(t, m.Add(h))
	if got := m.Filed(h.Cluster, noon); got != h.Filed {
		t.Errorf("manifest has %+v, want %+v", got, h.Filed)
	}
	check(t, m.Close())
}

// The error for an invalid file must contain the invalid line. The file must not be changed.
func TestInvalid(t *testing.T) {
	for _, text := range []string{"x\n", "{}\n", "\n", `{"cluster": "east", "hour": "noon", "revision": 1, "digest": "x"}` + "\n", "\x00\x00\n{"} {
		path := filepath.Join(t.TempDir(), "filed")
		check(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := manifest.Open(path); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("error for %q is %v", text, err)
		}
		if got, _ := os.ReadFile(path); string(got) != text {
			t.Errorf("file %q was changed to %q", text, got)
		}
	}
	path := filepath.Join(t.TempDir(), "filed")
	open(t, path)
	if _, err := manifest.Open(path); err == nil || !strings.Contains(err.Error(), "another gpuledger-archive") {
		t.Errorf("error for a locked file is %v", err)
	}
}

// Even without a umask, other users must not be able to read the file.
func TestMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "filed")
	open(t, path)
	info, err := os.Stat(path)
	check(t, err)
	if mode := info.Mode().Perm(); mode != 0o640 {
		t.Errorf("mode %o, want 640", mode)
	}
}
