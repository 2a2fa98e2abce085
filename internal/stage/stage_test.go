package stage_test

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// came returns the error of one attempt in every second. observed returns the lines of the log.
func observed(seconds int, came func(second int) error) []string {
	var out strings.Builder
	clock := gputest.NewClock()
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == "stage" {
			return slog.Attr{}
		}
		return a
	}}))
	s := stage.New(log, clock.Now)
	for i := range seconds {
		began := clock.Now()
		clock.Advance(time.Second)
		s.Observe(stage.PodResources, began, came(i))
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// Each reason of an outage must be logged once, with at most one message per minute. A stage that alternates between
// down and up must be logged as up after a minute without failures.
func TestSaidOnce(t *testing.T) {
	down := func(why string) string { return fmt.Sprintf("msg=\"stage down, will retry\" err=%q", why) }
	again := func(why string) string {
		return fmt.Sprintf("msg=\"stage down again, will be logged as up after a minute without failures\" err=%q", why)
	}
	const up = `msg="stage up again"`
	refused, denied := errors.New("connection refused"), errors.New("permission denied")
	tests := []struct {
		name string
		came func(second int) error
		want []string
	}{
		{"up", func(int) error { return nil }, []string{""}},
		{"one reason", func(int) error { return refused }, []string{down("connection refused")}},
		{"down and up", func(i int) error {
			if i%150 < 75 {
				return refused
			}
			return nil
		}, []string{down("connection refused"), up, down("connection refused"), up}},
		{"alternating all the time", func(i int) error {
			if i%2 == 0 {
				return refused
			}
			return nil
		}, []string{down("connection refused"), up, again("connection refused")}},
		{"alternating for two minutes, twice", func(i int) error {
			if i%200 < 120 && i%4 == 0 {
				return refused
			}
			return nil
		}, []string{down("connection refused"), up, again("connection refused"), up, again("connection refused")}},
		{"alternating, with alternating reasons", func(i int) error {
			return []error{refused, nil, denied}[i%3]
		}, []string{down("connection refused"), up, again("permission denied"), down("connection refused")}},
		{"another reason, later", func(i int) error {
			if i < 200 {
				return refused
			}
			return denied
		}, []string{down("connection refused"), down("permission denied")}},
		{"another reason, at once", func(i int) error {
			if i == 0 {
				return refused
			}
			return denied
		}, []string{down("connection refused"), down("permission denied")}},
		{"alternating reasons", func(i int) error {
			if i%2 == 0 {
				return refused
			}
			return denied
		}, []string{down("connection refused"), down("permission denied")}},
		{
			"other numbers", func(i int) error {
				return fmt.Errorf("read /proc/%d/stat: after %d s", 4*i, i)
			},
			[]string{down("read /proc/0/stat: after 0 s")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, observed(300, tt.came)); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

// At most one message per minute may be logged, even if every attempt fails for a different reason.
func TestManyReasons(t *testing.T) {
	lines := observed(3600, func(i int) error { return errors.New(strings.Repeat("x", i)) })
	if n := len(lines); n > 60 {
		t.Errorf("%d log lines in an hour, want at most 60", n)
	}
}

// Memory must be bounded even if every attempt in an outage fails for a different reason.
func TestReasonsOfDays(t *testing.T) {
	clock := gputest.NewClock()
	s := stage.New(slog.New(slog.DiscardHandler), clock.Now)
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	letters := strings.NewReplacer("0", "g", "1", "h", "2", "i", "3", "j", "4", "k", "5", "l", "6", "m", "7", "n", "8", "o", "9", "p")
	before := held()
	for i := range 30 * 24 * 60 {
		began := clock.Now()
		clock.Advance(time.Minute)
		s.Observe(stage.PodResources, began, errors.New(letters.Replace(fmt.Sprint(i))+strings.Repeat("x", 500)))
	}
	if after := held(); after > before+1<<20 {
		t.Errorf("heap grew by %d bytes in a month, want at most 1 MiB", after-before)
	}
	runtime.KeepAlive(s)
}
