// Report runs the accuracy bench and prints its table, or puts it into a file, between
// two markers. It fails if a book does not balance or the aim is missed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/test/accuracy"
)

const (
	length = 10 * time.Minute
	// aim is the largest error of the signal, as a share of the GPU's energy.
	aim = 0.02
)

const (
	begin = "<!-- make bench-accuracy: begin -->\n"
	end   = "<!-- make bench-accuracy: end -->\n"
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
	var table strings.Builder
	if err := accuracy.Write(&table, results); err != nil {
		return err
	}
	if file == "" {
		fmt.Print(table.String())
	} else if err := put(file, table.String()); err != nil {
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

// put replaces what stands between the markers in a file.
func put(file, table string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return errors.New("the markers are not there")
	}
	return os.WriteFile(file, []byte(before+begin+table+end+after), 0o644)
}
