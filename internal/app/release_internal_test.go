package app

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/internal/state"
)

// desk handles releases for an exporter without a driver. Tests write the requests to its state directory.
type desk struct {
	*releases
	dir    *state.Dir
	file   string
	now    gpu.Instant
	stages *stage.Set
	log    bytes.Buffer
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "state")
	dir, err := state.Open(folder, "boot")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	d := &desk{dir: dir, file: filepath.Join(folder, "release.json"), now: gpu.Instant{Wall: time.Now(), Boot: time.Hour}}
	clock := func() gpu.Instant { return d.now }
	log := slog.New(slog.NewTextHandler(&d.log, nil))
	d.stages = stage.New(log, clock)
	source := nvml.New(nvml.Config{LibraryPath: filepath.Join(folder, "none"), CallTimeout: time.Second, Now: clock, Log: log, Stages: d.stages})
	d.releases = &releases{path: folder, source: source, now: clock, log: log, stages: d.stages}
	return d
}

func (d *desk) save(t *testing.T, r release) {
	t.Helper()
	if err := d.dir.SaveTable(state.Release, &r); err != nil {
		t.Fatal(err)
	}
}

func (d *desk) released() bool {
	d.apply()
	_, err := d.source.Read(context.Background())
	return err != nil && strings.Contains(err.Error(), "released until")
}

// TestReleaseClock checks that setting the wall clock does not change the duration of a release.
func TestReleaseClock(t *testing.T) {
	for _, step := range []time.Duration{0, -2 * time.Hour, 2 * time.Hour} {
		d := newDesk(t)
		d.save(t, release{Until: d.now.Wall.Add(10 * time.Minute), By: "ada"})
		pass := func(by time.Duration) { d.now.Wall, d.now.Boot = d.now.Wall.Add(by), d.now.Boot+by }
		if !d.released() {
			t.Fatal("the driver is not released")
		}
		d.now.Wall = d.now.Wall.Add(step)
		if pass(10*time.Minute - time.Second); !d.released() {
			t.Errorf("clock set by %v: the release ended early", step)
		}
		if pass(2 * time.Second); d.released() {
			t.Errorf("clock set by %v: the release did not end", step)
		}
		if _, err := os.Stat(d.file); !os.IsNotExist(err) {
			t.Errorf("clock set by %v: the request remains: %v", step, err)
		}
	}
}

// TestBadRequests checks invalid release files. Such a file must not release the driver, must end a release in force,
// and must be logged at most once.
func TestBadRequests(t *testing.T) {
	write := func(content string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(content), 0o600) }
	}
	valid := `{"until":"` + time.Now().Add(time.Hour).Format(time.RFC3339) + `","by":"ada"`
	tests := map[string]func(path string) error{
		"empty":         write(""),
		"no JSON":       write("released"),
		"no time":       write(`{"by":"ada"}`),
		"ended":         write(`{"until":"2020-01-01T00:00:00Z","by":"ada"}`),
		"two days":      write(`{"until":"` + time.Now().Add(48*time.Hour).Format(time.RFC3339) + `","by":"ada"}`),
		"the year 9999": write(`{"until":"9999-01-01T00:00:00Z","by":"ada"}`),
		"control":       write(valid + `,"gpu":"a\u001b[2J"}`),
		"long name":     write(valid + `,"gpu":"` + strings.Repeat("x", 101) + `"}`),
		"huge":          write(valid + `}` + strings.Repeat(" ", 5<<10)),
		"directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"named pipe":    func(path string) error { return unix.Mkfifo(path, 0o600) },
		"link outside": func(path string) error {
			other := filepath.Join(t.TempDir(), "release.json")
			if err := os.WriteFile(other, []byte(valid+"}"), 0o600); err != nil {
				return err
			}
			return os.Symlink(other, path)
		},
	}
	for name, place := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.save(t, release{Until: d.now.Wall.Add(10 * time.Minute), By: "ada"})
			if !d.released() {
				t.Fatal("the driver is not released")
			}
			if err := os.Remove(d.file); err != nil {
				t.Fatal(err)
			}
			if err := place(d.file); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if d.released() {
					t.Error("the driver is released")
				}
			}
			if n := strings.Count(d.log.String(), "cannot read the request"); n > 1 {
				t.Errorf("reported %d times:\n%s", n, d.log.String())
			}
			d.save(t, release{Until: d.now.Wall.Add(10 * time.Minute), By: "ada"})
			if !d.released() {
				t.Error("a valid request after the invalid file has no effect")
			}
		})
	}
}

// TestInvalidCommand checks that a command with an invalid name leaves a release in force.
func TestInvalidCommand(t *testing.T) {
	d := newDesk(t)
	d.save(t, release{Until: d.now.Wall.Add(10 * time.Minute), By: "ada"})
	cfg := Config{StatePath: filepath.Dir(d.file), Release: ReleaseConfig{GPU: strings.Repeat("x", 101), For: time.Minute, By: "eve"}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ReleaseDriver(ctx, cfg, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "invalid name") {
		t.Errorf("error %v", err)
	}
	if !d.released() || d.last.By != "ada" {
		t.Errorf("the release of ada ended: %+v", d.last)
	}
}
