//go:build e2e

package archive_test

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pq "github.com/parquet-go/parquet-go"
	"github.com/prometheus/procfs"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/program"
)

var (
	yearGPUs   = flag.Int("year.gpus", 20, "number of GPUs in TestYear")
	yearFormat = flag.String("year.format", "parquet", "format of the files in TestYear")
	yearHours  = flag.Int("year.hours", 48, "number of hours in TestYear")
)

// steady returns a fleet and the flags for its hours. The fleet's samples begin at the midnight before these hours, and
// end one hour after them.
func steady(gpus int, from time.Time, hours int) (foldtest.Steady, []string) {
	until := from.Add(time.Duration(hours) * time.Hour)
	return foldtest.Steady{GPUs: gpus, Start: from.Add(-time.Hour).Truncate(24 * time.Hour), End: until.Add(time.Hour)}, []string{
		"once", "--log.level=warn", "--from=" + from.Format(time.RFC3339), "--until=" + until.Format(time.RFC3339),
	}
}

// TestSteady checks that the simulated store of TestYear returns the same data as a Prometheus.
func TestSteady(t *testing.T) {
	t.Parallel()
	const hours = 4 // node 1 restarts at midnight
	from := began.Add(22 * time.Hour)
	fleet, args := steady(9, from, hours)
	server := serve(t, program.OpenFor(t), "store", fleet.Store(), "")
	simulated := httptest.NewServer(foldtest.API{Store: fleet})
	defer simulated.Close()
	var trees []map[string]string
	for _, url := range []string{server.URL(), simulated.URL} {
		folder := t.TempDir()
		succeed(t, append(args, "--store.url="+url, "--folder="+folder, "--folder.format=csv,parquet")...)
		trees = append(trees, tree(t, folder))
		if got, want := energy(t, folder), fleet.Energy(from, from.Add(hours*time.Hour)); got != want {
			t.Errorf("%d mJ are filed, want %d", got, want)
		}
	}
	if diff := cmp.Diff(trees[0], trees[1]); diff != "" || len(trees[0]) == 0 {
		t.Errorf("files (-Prometheus +simulated):\n%s", diff)
	}
}

func energy(t *testing.T, folder string) int64 {
	t.Helper()
	return sum(t, rows(t, folder, "hours"), "energy_mj")[""]
}

// TestYear prints the memory and the processor time of the archive for many hours of a fleet (two days of a small fleet
// by default). The store is simulated, because a Prometheus would need as much processor time as the archive.
func TestYear(t *testing.T) {
	from := time.Now().UTC().Truncate(24 * time.Hour).Add(-newerDays*24*time.Hour - time.Duration(*yearHours)*time.Hour)
	fleet, args := steady(*yearGPUs, from, *yearHours)
	debug.SetGCPercent(400) // collect the garbage of the simulated store less often
	store := httptest.NewServer(foldtest.API{Store: fleet})
	defer store.Close()
	folder, log := t.TempDir(), &strings.Builder{}
	run := exec.CommandContext(t.Context(), binary(), append(args, "--store.url="+store.URL, "--folder="+folder, "--folder.format="+*yearFormat)...)
	run.Stdout, run.Stderr = log, log
	began := time.Now()
	check(t, run.Start())
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	resident, err := watch(t, run.Process.Pid, folder, ended)
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	used := run.ProcessState.UserTime() + run.ProcessState.SystemTime()
	fmt.Printf("%d GPUs, %d hours in %v: %v of processor time, at most %.0f MiB, %d MB of files\n", *yearGPUs, *yearHours,
		time.Since(began).Round(time.Second), used.Round(time.Second), resident, size(t, folder)/1e6)
	if resident > maxResident {
		t.Errorf("the memory must be at most %v MiB", maxResident)
	}
	want := fmt.Sprintf("%d | %d", *yearHours, fleet.Energy(from, from.Add(time.Duration(*yearHours)*time.Hour)))
	if got := manifest(t, folder); got != want {
		t.Errorf("hours | millijoules: %s, want %s", got, want)
	}
}

// manifest returns the number of hours in the table hours of a folder, and their energy in millijoules.
func manifest(t *testing.T, folder string) string {
	t.Helper()
	if *yearFormat == "csv" {
		return fmt.Sprintf("%d | %d", len(rows(t, folder, "hours")), energy(t, folder))
	}
	names, err := filepath.Glob(filepath.Join(folder, "hours", "*", "*", "hours.parquet"))
	check(t, err)
	count, sum := 0, int64(0)
	for _, name := range names {
		all, err := pq.ReadFile[struct {
			EnergyMJ int64 `parquet:"energy_mj"`
		}](name)
		check(t, err)
		for _, row := range all {
			count, sum = count+1, sum+row.EnergyMJ
		}
	}
	return fmt.Sprintf("%d | %d", count, sum)
}

// watch prints the memory of the archive every minute, and returns the maximum in MiB. It reads /proc. The kernel's
// resource usage of an ended process would include the memory that the parent used at the start of the process.
func watch(t *testing.T, pid int, folder string, ended <-chan error) (most float64, err error) {
	t.Helper()
	p, err := procfs.NewProc(pid)
	check(t, err)
	look, report := time.Tick(100*time.Millisecond), time.Tick(time.Minute)
	var status procfs.ProcStatus
	for {
		select {
		case err := <-ended:
			return most, err
		case <-look:
			if now, err := p.NewStatus(); err == nil && now.VmHWM > 0 { // an ending process has no VmHWM
				status, most = now, float64(now.VmHWM)/(1<<20)
			}
		case <-report:
			days, err := filepath.Glob(filepath.Join(folder, "hours", "*", "*"))
			check(t, err)
			fmt.Printf("%d days are filed; resident memory %d MiB, at most %.0f MiB\n", len(days), status.VmRSS>>20, most)
		}
	}
}
