package archive

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
)

func TestMoves(t *testing.T) {
	simulate(t, func(w *world) {
		w.moving()
		path := filepath.Join(w.TempDir(), "moves.jsonl")
		d, dir := w.folder("folder")
		a := w.archive([]string{"run", "--from=" + w.begin.Format(time.RFC3339), "--moves.file=" + path}, d)
		d.Books = func(ctx context.Context) (books.Source, error) { return books.OpenFolder(ctx, dir) }
		a.config.places = []sinks.Place{d}
		pusher, err := a.newPusher(&a.config, a.log)
		check(t, err)
		ctx, cancel := context.WithCancel(w.Context())
		var running sync.WaitGroup
		running.Go(func() { a.filers[0].run(ctx, settle) })
		running.Go(func() { _ = pusher.Run(ctx) })
		w.until(6, 30)
		cancel()
		running.Wait()
		text, err := os.ReadFile(path)
		if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), `"event":"moved"`) || !strings.Contains(string(text), `"previous_node":"n1"`) {
			t.Errorf("%v: %s\n%s", err, text, w.log.String())
		}
	})
	for _, args := range [][]string{{"once", "--folder=x", "--moves.file=y"}, {"run", "--stdout=json", "--moves.file=y"}} {
		if _, err := Parse(args); err == nil || !strings.Contains(err.Error(), "require run") {
			t.Errorf("%v: %v", args, err)
		}
	}
}
