package kernellog

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// instant is one hour after the boot.
func instant() gpu.Instant {
	return gpu.Instant{Wall: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), Boot: time.Hour}
}

func newLog(path string) *Log {
	return &Log{Path: path, Now: instant, Stages: stage.New(slog.New(slog.DiscardHandler), instant)}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, record string
		want         gpu.KernelError
	}{
		{"fallen off the bus", "2,1188,512345678,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n", gpu.KernelError{Address: "0000:3b:00", Code: 79, Sequence: 1188}},
		{"with a process", "3,7,1,-;NVRM: Xid (PCI:0000:AF:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000.\n SUBSYSTEM=pci\n", gpu.KernelError{Address: "0000:AF:00", Code: 31, Sequence: 7}},
		{"an instance", "3,8,1,-,caller=T1;NVRM: Xid (PCI:0000:01:00 GPU-I:05): 43, pid=1\n", gpu.KernelError{Address: "0000:01:00", Code: 43, Sequence: 8}},
		{"an old driver", "3,9,1,-;NVRM: Xid (0000:01:00): 13, 0001 00000000\n", gpu.KernelError{Address: "0000:01:00", Code: 13, Sequence: 9}},
		{"a large domain and a function", "3,9,1,-;NVRM: Xid (PCI:00010000:01:00.0): 119, Timeout\n", gpu.KernelError{Address: "00010000:01:00", Code: 119, Sequence: 9}},

		{"another line of the driver", "6,5,1,-;NVRM: GPU at PCI:0000:3b:00: GPU-5a1f\n", gpu.KernelError{}},
		{"a program that imitates it", "12,5,1,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n", gpu.KernelError{}},
		{"a driver that quotes it", "4,5,1,-;me: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n", gpu.KernelError{}},
		{"an error of an NVSwitch", "3,5,1,-;nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)\n", gpu.KernelError{Address: "0000:c1:00.0", Code: 28006, Severity: "non_fatal", Sequence: 5}},
		{"a fatal error of an NVSwitch", "3,6,1,-;nvidia-nvswitch11: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n", gpu.KernelError{Address: "0000:c1:00.0", Code: 20034, Severity: "fatal", Sequence: 6}},
		{"details of an NVSwitch's error", "3,7,1,-;nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 28006, Severity 0 Engine instance 46\n", gpu.KernelError{}},
		{"a program that imitates an NVSwitch", "11,5,1,-;nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n", gpu.KernelError{}},
		{"an NVSwitch without a sequence", "3,,1,-;nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30\n", gpu.KernelError{}},
		{"a long number", "3,5,1,-;NVRM: Xid (PCI:0000:3b:00): 79999999999, x\n", gpu.KernelError{}},
		{"no head", "NVRM: Xid (PCI:0000:3b:00): 79, x\n", gpu.KernelError{}},
		{"no sequence", "3,,1,-;NVRM: Xid (PCI:0000:3b:00): 79, x\n", gpu.KernelError{}},
		{"an impossible time", "3,5,99999999999999999999,-;NVRM: Xid (PCI:0000:3b:00): 79, x\n", gpu.KernelError{}},
		{"empty", "", gpu.KernelError{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _, ok := Parse([]byte(tt.record))
			if got != tt.want || ok != (tt.want.Code != 0) {
				t.Errorf("Parse(%q) = %+v, %v; want %+v", tt.record, got, ok, tt.want)
			}
		})
	}
}

// The address and the code of a parsed error must occur in the record.
func FuzzParse(f *testing.F) {
	f.Add([]byte("2,1188,512345678,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"))
	f.Add([]byte("3,8,1,-;NVRM: Xid (0000:01:00 GPU-I:05): 43"))
	f.Add([]byte("3,6,1,-;nvidia-nvswitch1: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30"))
	f.Fuzz(func(t *testing.T, record []byte) {
		x, at, ok := Parse(record)
		if !ok {
			return
		}
		if at < 0 || !bytes.Contains(record, []byte(x.Address)) || strings.Count(x.Address, ":") != 2 || x.Code >= 1e9 {
			t.Errorf("Parse(%q) = %+v at %v", record, x, at)
		}
	})
}

type reads []any

func (r *reads) Read(p []byte) (int, error) {
	if len(*r) == 0 {
		return 0, io.EOF
	}
	next := (*r)[0]
	*r = (*r)[1:]
	if err, ok := next.(error); ok {
		return 0, err
	}
	return copy(p, next.(string)), nil
}

// The oldest records of the log were overwritten, and one error is 10 minutes old.
func TestRecords(t *testing.T) {
	l := newLog("kmsg")
	log := reads{
		"5,1,0,-;Linux version 6.1\n", syscall.EPIPE,
		"3,1188,3000000000,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n",
	}
	if err := l.records(&log); err == nil {
		t.Error("records returned no error at the end of the log")
	}
	want := []gpu.KernelError{{Address: "0000:3b:00", Code: 79, Sequence: 1188, At: time.Date(2026, 5, 4, 11, 50, 0, 0, time.UTC)}}
	if diff := cmp.Diff(want, l.Take()); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if again := l.Take(); again != nil {
		t.Errorf("taken twice: %v", again)
	}
}

// Run must end with its context, even while it waits for further records.
func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kmsg")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Close() }()
	l := newLog(path)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	if _, err := writer.WriteString("3,5,1,-;NVRM: Xid (PCI:0000:3b:00): 79, x\n"); err != nil {
		t.Fatal(err)
	}
	for len(l.Take()) == 0 {
		runtime.Gosched()
	}
	cancel() // Run is now blocked in a read
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s := l.Stages.Snapshot(); len(s) != 1 || !s[0].Up {
		t.Errorf("stages %+v", s)
	}
}

func TestBound(t *testing.T) {
	l := newLog("kmsg")
	for i := range uint64(maxWaiting + 3) {
		l.put(gpu.KernelError{Sequence: i})
	}
	if taken := l.Take(); len(taken) != maxWaiting || taken[0].Sequence != 3 {
		t.Errorf("%d errors, the first at %d", len(taken), taken[0].Sequence)
	}
}
