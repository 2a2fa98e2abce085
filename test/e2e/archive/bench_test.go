//go:build e2e

package archive_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

var (
	benchGPUs = flag.Int("gpus", 0, "number of GPUs in TestCost, in one cluster; 0 skips the test")
	benchDays = flag.Int("days", 3, "number of days in TestCost")
)

// historyEnv names the folder of the program tools/history.
const historyEnv = "GPULEDGER_E2E_HISTORY"

// newerDays is the number of days between the archived days and now. The archive queries the last two days in a
// different way, so the archived days must be older.
const newerDays = 3

const (
	maxResident = 256.0 // in MiB, for 1,000 GPUs
	maxYear     = 12.0  // in hours of processor time for a year of 8,000 GPUs, for the archive and the store
)

// TestCost prints the processor time, the memory, and the size of the tables, for each kind of sink.
func TestCost(t *testing.T) {
	if *benchGPUs == 0 {
		t.Skip("this is a benchmark: make bench-archive runs it")
	}
	group := program.OpenFor(t)
	server, pid := history(t, group)
	url, db := startPostgres(t).create(t, "gpuledger")
	folder := t.TempDir()
	fmt.Printf("%d GPUs, %d hours\n\n| sink | processor time per hour of data: archive | store | sink | memory of the archive | bytes per GPU and year |\n|---|---|---|---|---|---|\n", *benchGPUs, *benchDays*24)
	for _, s := range []struct {
		name string
		args []string
		size func() int64
	}{
		{"Parquet", []string{"--folder=" + folder, "--folder.format=parquet"}, func() int64 { return size(t, folder) }},
		{"CSV", []string{"--folder=" + folder + "/csv", "--folder.format=csv"}, func() int64 { return size(t, folder+"/csv") }},
		{"PostgreSQL", []string{"--postgres.url=" + url}, func() int64 { return databaseSize(t, db) }},
	} {
		storeBefore, sinkBefore := used(t, server), postgresTime(t, db)
		usage := backfill(t, append(s.args, "--store.url="+server)...)
		c := cost{
			archive: time.Duration(usage.Utime.Nano() + usage.Stime.Nano()),
			store:   used(t, server) - storeBefore, sink: postgresTime(t, db) - sinkBefore,
		}
		c.print(t, s.name, float64(usage.Maxrss)/1024, s.size())
	}
	fmt.Printf("\nmemory of the store: %d MiB\n", peak(t, pid)>>20)
}

type cost struct{ archive, store, sink time.Duration }

func (c cost) print(t *testing.T, name string, resident float64, bytes int64) {
	hours := float64(*benchDays * 24)
	per := func(d time.Duration) float64 { return d.Seconds() / hours }
	fmt.Printf("| %s | %.3f s | %.3f s | %.3f s | %.0f MiB | %.0f |\n", name, per(c.archive), per(c.store), per(c.sink), resident,
		float64(bytes)/hours/float64(*benchGPUs)*24*365)
	year := (per(c.archive) + per(c.store)) * 8000 / float64(*benchGPUs) * 24 * 365 / 3600
	fmt.Printf("%s: %.1f hours of processor time for a year of 8,000 GPUs, store included\n", name, year)
	if year > maxYear || *benchGPUs <= 1000 && resident > maxResident {
		t.Errorf("%s: must be at most %v hours and %v MiB", name, maxYear, maxResident)
	}
}

func history(t *testing.T, group *program.Group) (string, int) {
	t.Helper()
	programs, err := prometheus.FromEnv()
	check(t, err)
	s := prometheus.Server{Programs: programs, Group: group, Name: "history", Address: program.AddressFor(t), Flags: []string{"--storage.tsdb.retention.time=10y"}}
	gpus, days := strconv.Itoa(*benchGPUs), strconv.Itoa(*benchDays+newerDays)
	write := exec.CommandContext(t.Context(), filepath.Join(os.Getenv(historyEnv), "history"),
		"--out="+group.Path(s.Name), "--clusters=1", "--gpus="+gpus, "--curves="+gpus, "--days="+days, "--counters="+days)
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p, err := s.Start(t.Context())
	check(t, err)
	return s.URL(), p.PID()
}

func used(t *testing.T, url string) time.Duration {
	t.Helper()
	page, err := exposition.Scrape(t.Context(), url+"/metrics")
	check(t, err)
	return time.Duration(page.Sum("process_cpu_seconds_total", nil) * float64(time.Second))
}

// postgresTime includes the processor time of connections that have ended.
func postgresTime(t *testing.T, db query) time.Duration {
	t.Helper()
	dir := db.rows(t, "select current_setting('data_directory')")[0]
	pid, err := strconv.Atoi(strings.Fields(text(t, filepath.Join(dir, "postmaster.pid")))[0])
	check(t, err)
	all, err := procfs.AllProcs()
	check(t, err)
	ticks := 0
	for _, p := range all {
		s, err := p.Stat()
		if err == nil && (s.PID == pid || s.PPID == pid) {
			ticks += int(s.UTime+s.STime) + s.CUTime + s.CSTime
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func backfill(t *testing.T, args ...string) *syscall.Rusage {
	t.Helper()
	end := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -newerDays)
	run := exec.CommandContext(t.Context(), binary(), append([]string{
		"once", "--log.level=warn", "--from=" + end.AddDate(0, 0, -*benchDays).Format(time.RFC3339), "--until=" + end.Format(time.RFC3339),
	}, args...)...)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return run.ProcessState.SysUsage().(*syscall.Rusage)
}

func size(t *testing.T, folder string) (bytes int64) {
	t.Helper()
	check(t, filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		bytes += info.Size()
		return err
	}))
	return bytes
}

func databaseSize(t *testing.T, db query) int64 {
	t.Helper()
	text := db.rows(t, "select sum(pg_total_relation_size(oid)) from pg_class where relnamespace = 'gpuledger'::regnamespace and relkind = 'r'")[0]
	bytes, err := strconv.ParseInt(text, 10, 64)
	check(t, err)
	return bytes
}
