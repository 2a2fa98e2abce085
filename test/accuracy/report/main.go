// Report runs the accuracy bench.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/test/accuracy"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "fake")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	library, err := fakes.Compile(dir)
	if err != nil {
		return err
	}
	for _, c := range accuracy.Cases() {
		began := time.Now()
		r, err := accuracy.Run(ctx, library, c, 10*time.Minute)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d mJ, out by %d and %d mJ (%v)\n", c.Name, r.Energy, r.Booked-r.Energy, r.Accounts-r.Booked, time.Since(began).Round(time.Millisecond))
		for _, o := range r.Owners {
			fmt.Printf("  %-12s truth %6.2f perfect %6.2f charged %6.2f signal %+6.2f bound %5.2f model %+6.2f | pidinfo %7.2f sm %6.2f\n", o.Name,
				100*o.Truth, 100*o.Perfect, 100*o.Charged, 100*o.Signal(), 100*o.Bound, 100*o.Model(), 100*o.PIDInfo, 100*o.SMShare)
		}
	}
	return nil
}
