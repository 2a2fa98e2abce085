// Backfill writes a history of series, and the results of recording rules for it, as Prometheus
// blocks. The demo begins with them.
//
// It reads a JSON object for each series on standard input: labels, and knots, each with a minute
// since 1970 and a value in thousandths. Between two knots the value is on a line, so that a
// counter needs few knots. Several objects with the same labels must not overlap.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"golang.org/x/sync/errgroup"
)

const (
	// phase is the second of a minute in which all series are scraped.
	phase = 7
	// every is the distance of samples in minutes. Only the last recent minutes have a sample in
	// each minute. It is the largest gap that the archive accepts.
	every, recent = 3, 3 * 24 * 60
	// block is the length of a block.
	block = 10 * 24 * time.Hour
)

func main() {
	out := flag.String("out", "", "`folder` to which blocks are added")
	rules := flag.String("rules", "", "glob `pattern` of the rule files")
	now := flag.Int64("now", time.Now().Unix()/60, "`minute` since 1970 that follows the last sample")
	flag.Parse()
	if err := run(context.Background(), os.Stdin, *out, *rules, *now); err != nil {
		fmt.Fprintln(os.Stderr, "backfill:", err)
		os.Exit(1)
	}
}

// run reads all series, evaluates the rules and writes the blocks.
func run(ctx context.Context, in io.Reader, out, rules string, now int64) (err error) {
	scratch, err := os.MkdirTemp("", "backfill")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	opts := tsdb.DefaultHeadOptions()
	// Samples may be older than samples of other series by half of this time.
	opts.ChunkRange, opts.ChunkDirRoot = (10 * 365 * 24 * time.Hour).Milliseconds(), scratch
	head, err := tsdb.NewHead(nil, slog.New(slog.DiscardHandler), nil, nil, opts, tsdb.NewHeadStats())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, head.Close()) }()
	if err := head.Init(math.MinInt64); err != nil {
		return err
	}
	if err := read(ctx, head, in, now); err != nil {
		return err
	}
	if err := evaluate(ctx, head, rules); err != nil {
		return err
	}
	return write(ctx, head, out)
}

// line is a series of the input.
type line struct {
	Labels map[string]string `json:"labels"`
	Knots  [][2]int64        `json:"knots"`
}

// read adds all series to the head.
func read(ctx context.Context, head *tsdb.Head, in io.Reader, now int64) error {
	series := make(map[string][]line)
	for lines := json.NewDecoder(in); ; {
		var l line
		if err := lines.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
		key := labels.FromMap(l.Labels).String()
		series[key] = append(series[key], l)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for name, parts := range series {
		group.Go(func() error {
			slices.SortFunc(parts, func(a, b line) int { return cmp.Compare(a.Knots[0][0], b.Knots[0][0]) })
			app := head.Appender(ctx)
			for _, l := range parts {
				if err := l.add(app, now); err != nil {
					return errors.Join(fmt.Errorf("%s: %w", name, err), app.Rollback())
				}
			}
			return app.Commit()
		})
	}
	return group.Wait()
}

// add adds the samples of a series. Series of a target have samples in the same minutes.
func (l line) add(app storage.Appender, now int64) (err error) {
	of, ref := labels.FromMap(l.Labels), storage.SeriesRef(0)
	for i, from := range l.Knots {
		to, last := from, i+1 == len(l.Knots)
		if !last {
			to = l.Knots[i+1]
		}
		for minute := from[0]; minute < to[0] || last && minute == to[0]; minute++ {
			if minute%every != 0 && minute < now-recent {
				continue
			}
			value := from[1]
			if minute > from[0] {
				value += (to[1] - from[1]) * (minute - from[0]) / (to[0] - from[0])
			}
			if ref, err = app.Append(ref, of, (minute*60+phase)*1000, float64(value)/1000); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes the head as blocks.
func write(ctx context.Context, head *tsdb.Head, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	compactor, err := tsdb.NewLeveledCompactor(ctx, nil, slog.New(slog.DiscardHandler), []int64{block.Milliseconds()}, chunkenc.NewPool(), nil)
	if err != nil {
		return err
	}
	group := new(errgroup.Group)
	group.SetLimit(runtime.GOMAXPROCS(0))
	end := head.MaxTime() + 1
	for from := head.MinTime(); from < end; from += block.Milliseconds() {
		until := min(from+block.Milliseconds(), end)
		group.Go(func() error {
			// A range includes its end, but a block does not.
			_, err := compactor.Write(out, tsdb.NewRangeHead(head, from, until-1), from, until, nil)
			return err
		})
	}
	return group.Wait()
}
