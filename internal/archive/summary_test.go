package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
)

// The sink takes one second for each of the first two hours, and then rejects both.
func TestSummary(t *testing.T) {
	simulate(t, func(w *world) {
		attempts := 0
		picky, dir := w.faultyFolder("picky", func(context.Context) error {
			if attempts++; attempts <= 2 {
				time.Sleep(time.Second)
				return permanent.Error(errors.New("value too long"))
			}
			return nil
		})
		if err := w.command(nil, picky); !errors.Is(err, ErrIncomplete) {
			w.Errorf("error is %v, want ErrIncomplete", err)
		}
		rows := w.rows(dir)
		if rows == 0 {
			w.Error("the files are empty")
		}
		w.summary("sink=picky filed=8 skipped=0 refused=2 reasons=\"rejected=2\" rows=%d seconds=2", rows)
		if err := w.command(nil, picky); err != nil {
			w.Error(err)
		}
		w.summary("sink=picky filed=2 skipped=8 refused=0 rows=%d seconds=0", w.rows(dir)-rows)
		if err := w.command([]string{"--again"}, picky); err != nil {
			w.Error(err)
		}
		w.summary("sink=picky filed=0 skipped=10 refused=0 rows=%d seconds=0", 0)
	})
}

func (w *world) summary(format string, rows int) {
	w.Helper()
	lines := strings.Split(strings.TrimSpace(w.log.String()), "\n")
	if got, want := lines[len(lines)-1], "msg=finished "+fmt.Sprintf(format, rows); !strings.HasSuffix(got, want) {
		w.Errorf("the last line is\n%s\nwant\n%s", got, want)
	}
}

func (w *world) rows(dir string) (n int) {
	w.Helper()
	for _, name := range []string{"gpu_hours", "charges", "pods", "workloads"} {
		found, err := filepath.Glob(filepath.Join(dir, name, "*", "*", "*.csv"))
		check(w, err)
		for _, path := range found {
			text, err := os.ReadFile(path)
			check(w, err)
			n += bytes.Count(text, []byte("\n")) - 1
		}
	}
	return n
}

// command uses its own sinks only if no sink is given.
func (w *world) command(args []string, places ...sinks.Place) error {
	w.Helper()
	if len(places) > 0 {
		args = append(args, "--folder=unused")
	}
	c, err := Parse(append([]string{"once", "--store.url=http://store", "--from=" + w.begin.Format(time.RFC3339)}, args...))
	check(w, err)
	if len(places) > 0 {
		c.places = places
	}
	c.Store.Dial = w.store.Dial
	return Once(w.Context(), c, time.Now(), slog.New(slog.NewTextHandler(w.log, nil)))
}
