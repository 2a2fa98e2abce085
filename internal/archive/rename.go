package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/gpuledger/gpuledger/internal/archive/sinks"
)

// Rename renames a cluster in all sinks that keep rows, and prints the number of renamed hours of each sink. If a sink
// fails, Rename continues with the other sinks.
func Rename(ctx context.Context, c Config, out io.Writer, log *slog.Logger) error {
	var failed error
	for _, p := range c.places {
		if p.Books == nil {
			log.Warn("sent rows cannot be renamed from here: rename them at the receiver", "sink", p.Name)
			continue
		}
		n, err := renameIn(ctx, &c, p)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", p.Label, err))
		}
		if err != nil && n == 0 {
			continue
		}
		if _, err := fmt.Fprintf(out, "%s: %d hours of %s are filed as %s\n", p.Name, n, c.RenameFrom, c.RenameTo); err != nil {
			return err
		}
	}
	return failed
}

func renameIn(ctx context.Context, c *Config, of sinks.Place) (n int, err error) {
	err = change(ctx, c, of, func(s sink) ([]string, error) {
		r, ok := s.(renamer)
		if !ok {
			return nil, errors.New("this sink cannot rename clusters")
		}
		n, err = r.RenameCluster(ctx, c.RenameFrom, c.RenameTo)
		if n == 0 {
			return nil, err
		}
		return []string{c.RenameFrom, c.RenameTo}, err
	})
	return n, err
}
