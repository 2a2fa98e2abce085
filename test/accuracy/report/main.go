// Report runs the accuracy bench and prints its table, or writes it into a file between two
// markers. It fails if a book does not balance or the aim is missed.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/test/accuracy"
	"github.com/gpuledger/gpuledger/test/markdown"
)

const (
	length = 10 * time.Minute
	// aim is the largest error of the signal, as a share of the GPU's energy.
	aim = 0.02
)

func main() {
	file := ""
	if len(os.Args) > 1 {
		file = os.Args[1]
	}
	if err := run(context.Background(), file); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string) error {
	runs, err := play(ctx)
	if err != nil {
		return err
	}
	favourable := runs[0].Results
	tables := map[string]string{
		"make bench-accuracy":         accuracy.Table(favourable).String(),
		"make bench-accuracy: ranges": accuracy.Ranges(runs).String(),
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if file == "" {
			fmt.Println(tables[name])
		} else if err := markdown.Put(file, name, tables[name]); err != nil {
			return fmt.Errorf("put the table into %s: %w", file, err)
		}
	}
	errs := []error{accuracy.Compare(accuracy.Summarize(favourable))}
	for _, r := range favourable {
		errs = append(errs, r.Check(func(accuracy.Owner) float64 { return max(aim, r.Limit) }))
	}
	return errors.Join(errs...)
}

// play runs all cases under all ways to take samples. There are no such ways for GPUs
// without samples.
func play(ctx context.Context) ([]accuracy.Run, error) {
	dir, err := os.MkdirTemp("", "fake")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	library, err := fakes.Compile(dir)
	if err != nil {
		return nil, err
	}
	var runs []accuracy.Run
	for i, how := range accuracy.Samplings() {
		run := accuracy.Run{Name: how.Name}
		for _, c := range accuracy.Sampled(accuracy.Cases(length), how) {
			if i > 0 && !c.Sampled() {
				continue
			}
			r, err := accuracy.Play(ctx, library, c, length)
			if err != nil {
				return nil, err
			}
			run.Results = append(run.Results, r)
		}
		runs = append(runs, run)
	}
	return runs, nil
}
