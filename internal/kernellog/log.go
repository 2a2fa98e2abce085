package kernellog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

const (
	// maxRecord is the size of the read buffer. No record is larger (CONSOLE_EXT_LOG_MAX is 8 KiB).
	maxRecord = 16 << 10
	// maxWaiting is the maximum number of errors that wait until the sampler takes them.
	maxWaiting = 4096
	// retry is the pause after an error before the log is opened again.
	retry = 10 * time.Second
)

// Log reads the kernel log, starting with the oldest record.
type Log struct {
	Path   string // normally /dev/kmsg
	Now    gpu.Clock
	Stages *stage.Set

	mu      sync.Mutex
	waiting []gpu.KernelError
}

// Take returns the errors that were read since the last call. If the log was opened again, Take returns earlier errors
// a second time.
func (l *Log) Take() []gpu.KernelError {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.waiting
	l.waiting = nil
	return taken
}

// Run reads the log until ctx ends. If the log cannot be read, Run opens it again after a pause.
func (l *Log) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		began := l.Now()
		err := l.read(ctx)
		if ctx.Err() == nil {
			l.Stages.Observe(stage.KernelLog, began, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
	return nil
}

func (l *Log) read(ctx context.Context) error {
	began := l.Now()
	fd, err := unix.Open(l.Path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w (reading the kernel log needs CAP_SYSLOG)", l.Path, err)
	}
	file := os.NewFile(uintptr(fd), l.Path) // the descriptor is non-blocking, so Close ends a read
	defer context.AfterFunc(ctx, func() { _ = file.Close() })()
	defer func() { _ = file.Close() }()
	l.Stages.Observe(stage.KernelLog, began, nil)
	return l.records(file)
}

// Each read returns one record. EPIPE means that records were overwritten before they were read. The next read then
// returns the oldest remaining record.
func (l *Log) records(r io.Reader) error {
	buffer := make([]byte, maxRecord)
	for {
		n, err := r.Read(buffer)
		switch {
		case errors.Is(err, unix.EPIPE):
			continue
		case err != nil:
			return fmt.Errorf("read %s: %w", l.Path, err)
		}
		if x, at, ok := Parse(buffer[:n]); ok {
			now := l.Now()
			x.At = now.Wall.Add(at - now.Boot)
			l.put(x)
		}
	}
}

func (l *Log) put(x gpu.KernelError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == maxWaiting {
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
	l.waiting = append(l.waiting, x)
}
