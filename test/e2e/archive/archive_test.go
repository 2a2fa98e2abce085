//go:build e2e

// Package archive_test runs the shipped gpuledger-archive against real stores, and compares its tables with
// the true values of simulated fleets.
package archive_test

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/program"
)

var kills = flag.Int("kills", 20, "number of times that the archive is killed, halved in a short run")

var began = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

const hours = 30

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run runs four tests at the same time, because they often wait for disks, servers, or the time of simulated nodes.
func run(m *testing.M) (code int, err error) {
	if _, err := program.Built("gpuledger-archive"); err != nil {
		return 0, err
	}
	if templates.dir, err = os.MkdirTemp("", "servers"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(templates.dir)
	err = errors.Join(flag.Set("test.parallel", "4"), os.Setenv("AWS_ACCESS_KEY_ID", "archive"), os.Setenv("AWS_SECRET_ACCESS_KEY", secret))
	if err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// binary reads the path in each test, so that go test doesn't reuse a cached result after a change of the program.
func binary() string {
	path, _ := program.Built("gpuledger-archive") // TestMain has checked it
	return path
}

func command(ctx context.Context, folder string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, binary(), append([]string{
		"once", "--log.format=json", "--folder=" + folder, "--folder.format=csv,parquet",
		"--from=" + began.Format(time.RFC3339), "--until=" + began.Add(hours*time.Hour).Format(time.RFC3339),
	}, args...)...)
}

func once(ctx context.Context, folder string, args ...string) ([]byte, error) {
	return command(ctx, folder, args...).CombinedOutput()
}

func fileHours(t *testing.T, folder string, args ...string) {
	t.Helper()
	if out, err := once(t.Context(), folder, args...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func succeed(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), binary(), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// kill starts commands that file hours, and kills each of them at a random moment, after it has filed up to two hours.
// Moments are relative to filed hours, because on a busy machine a command needs long until its first hour.
func kill(t *testing.T, command func() *exec.Cmd) {
	t.Helper()
	n := *kills
	if testing.Short() {
		n /= 2
	}
	for range n {
		c := command()
		log, err := c.StderrPipe()
		check(t, err)
		check(t, c.Start())
		left := rand.IntN(3)
		for lines := bufio.NewScanner(log); left > 0 && lines.Scan(); {
			if strings.Contains(lines.Text(), `"msg":"hour filed"`) {
				left--
			}
		}
		<-time.After(rand.N(100 * time.Millisecond))
		_ = c.Process.Kill() // the command may have ended
		_ = c.Wait()
	}
}

func lines(t *testing.T, path string) [][]string {
	t.Helper()
	file, err := os.Open(path)
	check(t, err)
	defer file.Close()
	all, err := csv.NewReader(file).ReadAll()
	check(t, err)
	return all
}

func rows(t *testing.T, folder, table string) (all []map[string]string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, table, "*", "*", table+"*.csv"))
	check(t, err)
	for _, name := range names {
		lines := lines(t, name)
		for _, line := range lines[1:] {
			row := make(map[string]string)
			for i, column := range lines[0] {
				row[column] = line[i]
			}
			all = append(all, row)
		}
	}
	return all
}

func sum(t *testing.T, rows []map[string]string, column string, by ...string) map[string]int64 {
	t.Helper()
	sums := make(map[string]int64)
	for _, row := range rows {
		n, err := strconv.ParseInt(row[column], 10, 64)
		check(t, err)
		key := make([]string, len(by))
		for i, name := range by {
			key[i] = row[name]
		}
		sums[strings.Join(key, " ")] += n
	}
	return sums
}

func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	check(t, filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		all[name] = string(text)
		return err
	}))
	return all
}

// TestExact checks that the tables contain the energy of two clusters in one store, to the millijoule. A second run
// must change no file. If a run was killed, the next run must complete its work.
func TestExact(t *testing.T) {
	t.Parallel()
	s := foldtest.NewStore()
	fleets := map[string]*foldtest.Fleet{
		"east": foldtest.NewFleet(s, began, 1, 12, "cluster", "east"),
		"west": foldtest.NewFleet(s, began, 2, 4, "cluster", "west"),
	}
	boards, pods := make(map[string]int64), make(map[string]int64)
	for cluster, f := range fleets {
		f.Run(hours * 60)
		for _, n := range f.Nodes {
			boards[cluster+" "+n.Name] = n.Board.Energy
			for uid, use := range n.Pods {
				if use.Energy > 0 {
					pods[cluster+" "+uid] = use.Energy
				}
			}
		}
	}
	server := serve(t, program.OpenFor(t), "store", s, "")
	folder := t.TempDir()
	fileHours(t, folder, "--store.url="+server.URL())
	if diff := cmp.Diff(boards, sum(t, rows(t, folder, "gpu_hours"), "energy_mj", "cluster", "node")); diff != "" {
		t.Errorf("boards (-scraped +filed):\n%s", diff)
	}
	charges := rows(t, folder, "charges")
	owned := slices.DeleteFunc(slices.Clone(charges), func(row map[string]string) bool { return row["reason"] != "" })
	for _, row := range owned {
		row["owner"] = row["pod_uid"] + row["unit"]
	}
	if diff := cmp.Diff(pods, sum(t, owned, "energy_mj", "cluster", "owner")); diff != "" {
		t.Errorf("pods and units (-scraped +filed):\n%s", diff)
	}
	byHour := []string{"cluster", "hour", "node", "uuid"}
	used, charged := sum(t, rows(t, folder, "gpu_hours"), "energy_mj", byHour...), sum(t, charges, "energy_mj", byHour...)
	for key, energy := range used {
		if energy == 0 {
			delete(used, key)
		}
	}
	if diff := cmp.Diff(used, charged); diff != "" {
		t.Errorf("the charges of a GPU in an hour do not add up to its energy (-used +charged):\n%s", diff)
	}
	if got, want := len(rows(t, folder, "hours")), 2*hours; got != want {
		t.Errorf("%d hours are filed, want %d", got, want)
	}

	want := tree(t, folder)
	if out, err := once(t.Context(), folder, "--store.url="+server.URL(), "--again"); err != nil || strings.Contains(string(out), "hour filed") {
		t.Errorf("%v: a second run refiles hours:\n%s", err, out)
	}
	if diff := cmp.Diff(want, tree(t, folder)); diff != "" {
		t.Errorf("a second run changes files (-first +second):\n%s", diff)
	}

	killed, store := t.TempDir(), "--store.url="+simulated(t, s)
	kill(t, func() *exec.Cmd { return command(t.Context(), killed, store, "--again") })
	fileHours(t, killed, store)
	got := tree(t, killed)
	for name := range got {
		if strings.HasSuffix(name, ".next") {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after the kills (-Prometheus, undisturbed +simulated store, killed):\n%s", diff)
	}
}
