package podmapper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/proc"
)

// endsAfter is a context that ends after a number of calls of Err.
type endsAfter struct {
	context.Context
	times, calls int
}

func (c *endsAfter) Err() error {
	if c.calls++; c.calls > c.times {
		return context.Canceled
	}
	return nil
}

// TestScanEndsWithItsContext checks that a scan stops when its context ends. Otherwise a scan of thousands of processes
// could delay the shutdown of the program.
func TestScanEndsWithItsContext(t *testing.T) {
	root := t.TempDir()
	for pid := range 100 {
		dir := filepath.Join(root, fmt.Sprint(1+pid))
		stat := fmt.Sprintf("%d (x) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n", 1+pid)
		if err := errors.Join(
			os.Mkdir(dir, 0o755),
			os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644),
			os.WriteFile(filepath.Join(dir, "cgroup"), []byte("0::/kubepods/pod"+uid+"/"+id+"\n"), 0o644),
		); err != nil {
			t.Fatal(err)
		}
	}
	s := podScan{tree: proc.Tree{Root: root}}
	ctx := &endsAfter{Context: context.Background(), times: 10}
	live, err := s.scan(ctx, time.Hour)
	if !errors.Is(err, context.Canceled) || live != nil || s.seen != nil {
		t.Errorf("scan = %v, %v and remembers %d processes, want %v and nothing", live, err, len(s.seen), context.Canceled)
	}
	if ctx.calls != ctx.times+1 {
		t.Errorf("the scan checked its context %d times, want %d", ctx.calls, ctx.times+1)
	}
}
