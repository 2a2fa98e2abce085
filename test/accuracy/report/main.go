// Report measures the accuracy of the charges. It prints the tables, or writes them into files between two markers. It
// fails if the accounts do not add up to the GPU's energy, or if an error exceeds the aim.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/test/accuracy"
	"github.com/gpuledger/gpuledger/test/accuracy/tenants"
	"github.com/gpuledger/gpuledger/test/markdown"
)

const (
	// length is the simulated time for the first sampling. It is halved for the other samplings, because only their
	// means are reported.
	length = 10 * time.Minute
	light  = 15 * time.Minute
	cheat  = 20 * time.Minute
	// aim is the maximum error that the driver's samples may cause, as a share of the GPU's energy.
	aim = 0.02
)

func main() {
	var to files
	if len(os.Args) == 3 {
		to = files{os.Args[1], os.Args[2]}
	}
	if err := run(context.Background(), to); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// The summary is written into one document. All other tables are written into the other document. If the name of a
// document is empty, its tables are printed.
type files struct{ summary, tables string }

func run(ctx context.Context, to files) error {
	light, err := reportTenants(to)
	if err != nil {
		return err
	}
	runs, err := play(ctx)
	if err != nil {
		return err
	}
	favourable := runs[0].Results
	err = errors.Join(
		put(to.tables, "make bench-accuracy", accuracy.Table(favourable)),
		put(to.tables, "make bench-accuracy: ranges", accuracy.Ranges(runs)),
		put(to.summary, "make bench-accuracy: worst", accuracy.Worst(runs, light)),
	)
	if err != nil {
		return err
	}
	errs := []error{accuracy.Compare(accuracy.Summarize(favourable))}
	for _, r := range favourable {
		errs = append(errs, r.Check(func(accuracy.Owner) float64 { return max(aim, r.Limit) }))
	}
	return errors.Join(errs...)
}

func put(file, name string, table *markdown.Table) error {
	if file == "" {
		fmt.Println(table)
		return nil
	}
	if err := markdown.Put(file, name, table.String()); err != nil {
		return fmt.Errorf("write the table to %s: %w", file, err)
	}
	return nil
}

func reportTenants(to files) (rows []tenants.Row, err error) {
	beside, err := tenants.BesideTable()
	if err != nil {
		return nil, err
	}
	for _, l := range tenants.Lights() {
		row, err := tenants.Measure(l, light)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	cheats, err := tenants.CheatTable(cheat)
	if err != nil {
		return nil, err
	}
	sharings, err := tenants.SharingTable(cheat)
	if err != nil {
		return nil, err
	}
	twins, err := tenants.TwinTable(cheat)
	if err != nil {
		return nil, err
	}
	return rows, errors.Join(
		put(to.tables, "make bench-accuracy: cheats", cheats),
		put(to.tables, "make bench-accuracy: sharings", sharings),
		put(to.tables, "make bench-accuracy: twins", twins),
		put(to.summary, "make bench-accuracy: beside", beside),
		put(to.tables, "make bench-accuracy: light", tenants.Table(rows)),
	)
}

// play runs all cases with each sampling. It skips cases on GPUs without samples, because the sampling makes no
// difference there.
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
		run, length := accuracy.Run{Name: how.Name}, length
		if i > 0 {
			length /= 2
		}
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
