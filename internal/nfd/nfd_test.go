package nfd_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/nfd"
)

func node(serial string, drivers ...gpu.Driver) *gpu.Snapshot {
	s := &gpu.Snapshot{Drivers: drivers, GPUs: make([]gpu.GPU, 1)}
	s.Node.Name = "gpu-1"
	s.GPUs[0].Device = gpu.Device{UUID: "GPU-1", Serial: serial, PCIBusID: "00000000:1B:00.0"}
	s.GPUs[0].Present = true
	return s
}

// TestFile checks that the file is written after two equal readings with new labels, and before it expires. While
// the driver does not respond, the labels in the file must not change.
func TestFile(t *testing.T) {
	up := gpu.Driver{}
	synctest.Test(t, func(t *testing.T) {
		directory := t.TempDir()
		var latest atomic.Pointer[gpu.Snapshot]
		run(t, &nfd.File{Directory: directory, Latest: latest.Load, Log: slog.New(slog.DiscardHandler)})
		steps := []struct {
			name    string
			latest  *gpu.Snapshot
			after   time.Duration
			serial  string
			expires time.Duration // time since the beginning
		}{
			{"no snapshot", nil, 5 * time.Minute, "", 0},
			{"first reading", node("1653", up), time.Minute, "", 0},
			{"second reading", node("1653", up), time.Minute, "1653", 67 * time.Minute},
			{"the driver does not respond", node("9999"), 10 * time.Minute, "1653", 67 * time.Minute},
			{"the file is refreshed", node("9999"), 10 * time.Minute, "1653", 87 * time.Minute},
			{"another board, once", node("2000", up), time.Minute, "1653", 87 * time.Minute},
			{"another board, twice", node("2000", up), time.Minute, "2000", 89 * time.Minute},
		}
		begun := time.Now()
		for _, step := range steps {
			latest.Store(step.latest)
			<-time.After(step.after)
			synctest.Wait()
			want := ""
			if step.serial != "" {
				want = "# +expiry-time=" + begun.Add(step.expires).UTC().Format(time.RFC3339) +
					"\ngpuledger.io/gpu-0=" + step.serial + "\ngpuledger.io/gpu-count=1\n"
			}
			got, err := os.ReadFile(filepath.Join(directory, "gpuledger"))
			if string(got) != want || os.IsNotExist(err) != (want == "") {
				t.Errorf("%s: %v\n%s\nwant\n%s", step.name, err, got, want)
			}
		}
		if entries, err := os.ReadDir(directory); err != nil || len(entries) != 1 {
			t.Errorf("%v, %v, want one file", entries, err)
		}
	})
}

// TestFailure checks that a missing directory is logged once. When the directory exists, the file must be written.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		directory, log := filepath.Join(t.TempDir(), "features.d"), &bytes.Buffer{}
		run(t, &nfd.File{Directory: directory, Latest: func() *gpu.Snapshot { return node("1653", gpu.Driver{}) }, Log: slog.New(slog.NewTextHandler(log, nil))})
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if n := strings.Count(log.String(), "level=WARN"); n != 1 {
			t.Errorf("%d warnings, want one:\n%s", n, log)
		}
		if err := os.Mkdir(directory, 0o755); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if _, err := os.Stat(filepath.Join(directory, "gpuledger")); err != nil {
			t.Error(err)
		}
	})
}

// run runs the loop of a File until the test ends. If the loop's timer and a timer of the test are due together, the
// loop's timer fires first.
func run(t *testing.T, f *nfd.File) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.Run(ctx) }()
	synctest.Wait()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
