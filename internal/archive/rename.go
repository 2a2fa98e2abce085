package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Rename gives a cluster another name in all sinks that keep hours, and prints the number of its hours. If a sink fails,
// the others are still changed.
func Rename(ctx context.Context, c Config, out io.Writer, log *slog.Logger) error {
	var failed error
	for _, d := range destinations {
		if !d.isSet(&c) {
			continue
		}
		if d.books == nil {
			log.Warn("rows that were sent cannot be renamed: rename them where they were received", "sink", sinkName(d))
			continue
		}
		n, err := renameIn(ctx, &c, d)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("--%s: %w", d.flag, err))
			continue
		}
		if _, err := fmt.Fprintf(out, "%s: %d hours of %s are filed as %s\n", sinkName(d), n, c.RenameFrom, c.RenameTo); err != nil {
			return err
		}
	}
	return failed
}

func renameIn(ctx context.Context, c *Config, d destination) (n int, err error) {
	s, err := d.open(ctx, c)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	unlock, err := lockEvents(c, d)
	if err != nil {
		return 0, err
	}
	defer unlock()
	r, ok := s.(renamer)
	if !ok {
		return 0, errors.New("its clusters cannot be renamed")
	}
	return r.RenameCluster(ctx, c.RenameFrom, c.RenameTo)
}
