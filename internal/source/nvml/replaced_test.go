package nvml_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// mismatch makes all calls return NVML_ERROR_LIB_RM_VERSION_MISMATCH.
const mismatch = "fail:18"

// TestReplaced checks when Run ends after the driver was replaced, and with which error. The library belongs to driver
// 570.86.15.
func TestReplaced(t *testing.T) {
	const plan = "driver 575.57.08 is loaded in the kernel, but this process has the library of 570.86.15: "
	type step struct {
		after time.Duration
		do    string // response to all calls; empty if they succeed
		want  string // part of the error; empty if there is no error
		ended bool
	}
	tests := []struct {
		name    string
		kernel  string
		steps   []step
		install bool // another file replaces the library before the last step
		remove  bool // the file is removed before the last step
		newFile bool
	}{
		{name: "the old file", kernel: "575.57.08", steps: []step{
			{0, "", "", false},
			{time.Second, mismatch, plan + "the process exits at 14:01:01, because ", false},
			{59 * time.Second, mismatch, plan + "the process exits at 14:01:01, because ", false},
			{time.Second, mismatch, plan, true},
		}},
		{name: "a new file", kernel: "575.57.08", install: true, newFile: true, steps: []step{
			{0, "", "", false},
			{time.Second, mismatch, plan + "the process exits at 14:01:01, because ", false},
			{time.Minute, mismatch, plan + "the process executes itself again at 14:01:01 to load the new file ", true},
		}},
		{name: "a new file of a driver that never responded", kernel: "575.57.08", install: true, newFile: true, steps: []step{
			{0, mismatch, "has not changed: load a driver of the library's version (or reboot), ", false},
			{time.Hour, mismatch, plan + "the process executes itself again at 14:01:00 to load the new file ", true},
		}},
		{name: "the old file of a driver that never responded", kernel: "575.57.08", steps: []step{
			{0, mismatch, "has not changed: load a driver of the library's version (or reboot), ", false},
			{time.Hour, mismatch, "has not changed: load a driver of the library's version (or reboot), ", false},
		}},
		{name: "no file", kernel: "575.57.08", remove: true, steps: []step{
			{0, "", "", false},
			{time.Second, mismatch, plan + "the process exits at 14:01:01, because ", false},
			{time.Minute, mismatch, plan + "the process waits for the new library: ", false},
		}},
		{name: "a mismatch that ends", kernel: "575.57.08", steps: []step{
			{0, "", "", false},
			{time.Second, mismatch, plan, false},
			{59 * time.Second, "", "", false},
			{time.Second, mismatch, plan + "the process exits at 14:02:01, because ", false},
			{59 * time.Second, "fail:9", "Driver Not Loaded", false},
			{time.Second, mismatch, plan + "the process exits at 14:03:01, because ", false},
		}},
		{name: "the same version", kernel: "570.86.15", steps: []step{
			{0, "", "", false},
			{time.Second, mismatch, "Driver/library version mismatch", false},
			{time.Hour, mismatch, "Driver/library version mismatch", false},
		}},
		{name: "an unknown version", steps: []step{
			{0, "", "", false},
			{time.Second, mismatch, "Driver/library version mismatch", false},
			{time.Hour, mismatch, "Driver/library version mismatch", false},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDriver(t, pair())
			folder, clock := t.TempDir(), clockAtTwo()
			library := filepath.Join(folder, filepath.Base(libraryPath))
			if tt.kernel != "" {
				write(t, filepath.Join(folder, "sys/module/nvidia/version"), tt.kernel+"\n")
			}
			copyTo(t, libraryPath, library)
			log := slog.New(slog.DiscardHandler)
			s := nvml.New(nvml.Config{
				LibraryPath: library, CallTimeout: gputest.HangTimeout, SysFS: filepath.Join(folder, "sys"), RestartAfter: time.Minute,
				Now: clock.Now, Log: log, Stages: stage.New(log, clock.Now),
			})
			t.Cleanup(func() { d.healed(); _ = s.Close(time.Minute) })
			for i, step := range tt.steps {
				clock.Advance(step.after)
				if d.healed(); step.do != "" {
					d.fault("*", "*", step.do)
				}
				if last := i == len(tt.steps)-1; last && tt.install {
					copyTo(t, libraryPath, library)
				} else if last && tt.remove {
					if err := os.Remove(library); err != nil {
						t.Fatal(err)
					}
				}
				_, err := s.Read(context.Background())
				if (err == nil) != (step.want == "") || err != nil && !strings.Contains(err.Error(), step.want) {
					t.Fatalf("step %d: error %v, want %q", i, err, step.want)
				}
				if replaced := s.Replaced() != nil; replaced != strings.Contains(fmt.Sprint(err), "is loaded in the kernel") {
					t.Errorf("step %d: replaced: %v", i, replaced)
				}
				ended, stopped := context.WithCancel(context.Background())
				if !step.ended {
					stopped()
				}
				replaced, ok := errors.AsType[nvml.Replaced](s.Run(ended))
				stopped()
				if ok != step.ended || ok && replaced.NewFile != tt.newFile {
					t.Errorf("step %d: Run ended: %v with %+v", i, ok, replaced)
				}
			}
		})
	}
}

func clockAtTwo() *gputest.Clock {
	clock := gputest.NewClock()
	now := clock.Now().Wall
	clock.Advance(time.Date(now.Year(), now.Month(), now.Day()+1, 14, 0, 0, 0, now.Location()).Sub(now))
	return clock
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to+".new", string(content))
	if err := os.Rename(to+".new", to); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o755)); err != nil {
		t.Fatal(err)
	}
}
