//go:build realtime

package blindness_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/test/blindness"
	"github.com/gpuledger/gpuledger/test/program"
)

var (
	schedules = flag.Int("schedules", 12, "number of schedules that TestSchedules plays")
	first     = flag.Uint64("seed", 1, "seed of the first schedule of TestSchedules")
	listed    = flag.String("seeds", "", "seeds of the schedules of TestSchedules, such as 3,47,51, instead of consecutive seeds")
	together  = flag.Int("together", 12, "number of schedules that are played at a time")
	length    = flag.Duration("length", 75*time.Second, "length of a schedule")
	verbose   = flag.Bool("details", false, "print each schedule")
)

// TestSchedules plays random schedules with the shipped exporter, and compares the exporter's pages with the truth.
func TestSchedules(t *testing.T) {
	dir := t.TempDir()
	if err := program.Build(t.Context(), dir, "gpuledger"); err != nil {
		t.Fatal(err)
	}
	library, err := fakes.Compile(dir)
	if err != nil {
		t.Fatal(err)
	}
	programs := blindness.Programs{Exporter: filepath.Join(dir, "gpuledger"), Library: library}
	table := blindness.NewTable()
	var group sync.WaitGroup
	places := make(chan struct{}, *together)
	for _, seed := range seeds(t) {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			playOne(t, programs, seed, table)
		})
	}
	group.Wait()
	fmt.Fprint(os.Stdout, table)
}

func seeds(t *testing.T) []uint64 {
	var out []uint64
	if *listed == "" {
		for i := range *schedules {
			out = append(out, *first+uint64(i))
		}
		return out
	}
	for text := range strings.SplitSeq(*listed, ",") {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("-seeds: %v", err)
		}
		out = append(out, seed)
	}
	return out
}

func playOne(t *testing.T, programs blindness.Programs, seed uint64, table *blindness.Table) {
	s := blindness.Draw(seed, *length)
	play, err := blindness.Run(context.Background(), s, programs)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return
	}
	found := blindness.Check(play)
	table.Add(play, found)
	for _, v := range found {
		t.Errorf("seed %d: %s: %s", seed, v.Rule, v.Text)
	}
	if len(found) > 0 || *verbose {
		t.Logf("seed %d:\n%s", seed, play)
	}
}
