// Report runs the accuracy bench and prints its table, or puts it into a file, between
// two markers. It fails if a book does not balance or the aim is missed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	results, err := play(ctx)
	if err != nil {
		return err
	}
	table := accuracy.Table(results).String()
	if file == "" {
		fmt.Print(table)
	} else if err := markdown.Put(file, "make bench-accuracy", table); err != nil {
		return fmt.Errorf("put the table into %s: %w", file, err)
	}
	var errs []error
	for _, r := range results {
		errs = append(errs, r.Check(func(accuracy.Owner) float64 { return aim }))
	}
	return errors.Join(errs...)
}

// play plays all cases.
func play(ctx context.Context) ([]accuracy.Result, error) {
	dir, err := os.MkdirTemp("", "fake")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	library, err := fakes.Compile(dir)
	if err != nil {
		return nil, err
	}
	var results []accuracy.Result
	for _, c := range accuracy.Cases(length) {
		r, err := accuracy.Run(ctx, library, c, length)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}
