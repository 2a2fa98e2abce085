package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sync/errgroup"
)

const (
	// slow is the minimum interval of the groups that are evaluated. Results of faster groups are
	// not used for the past.
	slow = 15 * time.Minute
	// step and offset are the times of evaluation: results of an hour are known early in the next hour, and sums
	// of such results from its 32nd minute on.
	step, offset = 30 * time.Minute, 7 * time.Minute
	// part is the length of time that one query covers. The last query covers more time, at the
	// interval of the rules: dashboards read a sum for 59 minutes, and one evaluation an hour would
	// leave a gap until the server evaluates the rules.
	part = 4 * 24 * time.Hour
)

// evaluate adds the results of the recording rules of slow groups. It processes the files in the
// order of their names.
func evaluate(ctx context.Context, head *tsdb.Head, pattern string) error {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no rules in %q: %w", pattern, err)
	}
	language := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: math.MaxInt32, Timeout: time.Hour, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		Parser: language,
	})
	for _, file := range files {
		groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, language, slog.New(slog.DiscardHandler))
		if errs != nil {
			return errors.Join(errs...)
		}
		for _, g := range groups.Groups {
			for _, r := range g.Rules {
				if time.Duration(g.Interval) < slow || r.Record == "" {
					continue
				}
				if err := record(ctx, engine, head, r); err != nil {
					return fmt.Errorf("%s: %s: %w", file, r.Record, err)
				}
			}
		}
	}
	return nil
}

// record adds the results of a rule. The parts of the time are evaluated concurrently.
func record(ctx context.Context, engine *promql.Engine, head *tsdb.Head, r rulefmt.Rule) error {
	begin, end := time.UnixMilli(head.MinTime()).Truncate(step).Add(offset), time.UnixMilli(head.MaxTime())
	results := make([]promql.Matrix, max(1, end.Sub(begin)/part))
	group, queries := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range results {
		group.Go(func() (err error) {
			from := begin.Add(time.Duration(i) * part)
			if i+1 == len(results) {
				results[i], err = query(queries, engine, head, r.Expr, from, end, slow)
			} else {
				results[i], err = query(queries, engine, head, r.Expr, from, from.Add(part-step), step)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	app := head.Appender(ctx)
	for _, matrix := range results {
		for _, s := range matrix {
			b := labels.NewBuilder(s.Metric).Set(labels.MetricName, r.Record)
			for name, value := range r.Labels {
				b.Set(name, value)
			}
			of, ref := b.Labels(), storage.SeriesRef(0)
			for _, p := range s.Floats {
				var err error
				if ref, err = app.Append(ref, of, p.T, p.F); err != nil {
					return errors.Join(err, app.Rollback())
				}
			}
		}
	}
	return app.Commit()
}

// query evaluates an expression at each step from one time until another.
func query(ctx context.Context, engine *promql.Engine, head *tsdb.Head, expr string, from, until time.Time, each time.Duration) (promql.Matrix, error) {
	past := storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
		return tsdb.NewBlockQuerier(tsdb.NewRangeHead(head, mint, maxt), mint, maxt)
	})
	q, err := engine.NewRangeQuery(ctx, past, nil, expr, from, until, each)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	matrix, err := q.Exec(ctx).Matrix()
	matrix = slices.Clone(matrix)
	for i := range matrix {
		matrix[i].Floats = slices.Clone(matrix[i].Floats) // copied, because Close recycles the points of the query
	}
	return matrix, err
}
