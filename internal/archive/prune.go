package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/sinks"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// keeping omits standard output and webhooks. They keep no rows, so hours cannot be read, deleted or renamed there.
func keeping(c *Config) (all []sinks.Place) {
	for _, p := range c.places {
		if p.Books != nil {
			all = append(all, p)
		}
	}
	return all
}

// Prune deletes rows and events in all sinks that keep rows. It deletes the months before c.Before, and keeps the
// monthly sums and the manifest. If a sink fails, Prune continues with the other sinks.
func Prune(ctx context.Context, c Config, out io.Writer, now time.Time, log *slog.Logger) error {
	before := table.Month(c.Before.Time)
	if !before.Equal(c.Before.Time) {
		log.Info("only whole months are pruned", "before", before.Format(time.DateOnly))
	}
	if before.After(now) {
		return fmt.Errorf("--before=%s is in the future", c.Before.Format(time.DateOnly))
	}
	for _, p := range c.places {
		if p.Books == nil {
			log.Warn("sent rows cannot be deleted from here: delete them at the receiver", "sink", p.Name)
		}
	}
	err := pruneAll(ctx, &c, before, out)
	if err == nil && c.DryRun {
		log.Info("nothing was deleted: this is a dry run")
	}
	return err
}

func pruneAll(ctx context.Context, c *Config, before time.Time, out io.Writer) (failed error) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SINK\tTABLE\tCLUSTER\tROWS\tFILES\tBYTES\tFIRST HOUR\tLAST HOUR")
	for _, p := range keeping(c) {
		found, err := pruneSink(ctx, c, p, before)
		for _, of := range found {
			printDeleted(w, p.Name, of)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", p.Label, err))
		}
	}
	return errors.Join(failed, w.Flush())
}

func pruneSink(ctx context.Context, c *Config, of sinks.Place, before time.Time) (found []table.Deleted, err error) {
	err = change(ctx, c, of, func(s sink) (clusters []string, err error) {
		p, ok := s.(pruner)
		if !ok {
			return nil, errors.New("this sink cannot delete hours")
		}
		err = p.Prune(ctx, before, c.DryRun, func(of table.Deleted) {
			if !c.DryRun && !slices.Contains(clusters, of.Cluster) {
				clusters = append(clusters, of.Cluster)
			}
			i := slices.IndexFunc(found, func(known table.Deleted) bool { return known.Table == of.Table && known.Cluster == of.Cluster })
			if i < 0 {
				found = append(found, of)
				return
			}
			found[i].Add(of)
		})
		return clusters, err
	})
	slices.SortFunc(found, func(a, b table.Deleted) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Table, b.Table))
	})
	return found, err
}

// change opens a sink for a command that deletes or renames hours. After the command, it publishes checkpoints of the
// changed clusters. In a folder, it also takes the lock for events, so that no other program adds events.
func change(ctx context.Context, c *Config, of sinks.Place, do func(sink) (clusters []string, err error)) (err error) {
	signer, err := c.Chain.Signer()
	if err != nil {
		return err
	}
	s, err := of.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	to, ok := s.(chained)
	if ok {
		to.SignWith(signer)
	}
	if of.Folder != "" {
		events, err := of.Events(ctx)
		if err != nil {
			return err
		}
		defer events.Close()
	}
	clusters, err := do(s)
	if ok && signer != nil {
		err = errors.Join(err, publisher{c.Chain, of.Name, to}.all(ctx, clusters))
	}
	return err
}

func printDeleted(w io.Writer, sink string, of table.Deleted) {
	name := of.Table
	if name == table.Hours.Name {
		name += " (marked as pruned)"
	}
	count := func(n int64) string {
		if n == 0 {
			return "-"
		}
		return fmt.Sprint(n)
	}
	const hour = "2006-01-02T15"
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", sink, name, of.Cluster, count(of.Rows), count(of.Files), count(of.Bytes), of.First.UTC().Format(hour), of.Last.UTC().Format(hour))
}
