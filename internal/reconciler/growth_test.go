//go:build realtime

package reconciler_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/test/program"
)

const (
	// The first run uses growthSize Nodes or pods, and the second run uses twice as many.
	growthSize = 200
	// maxGrowth is the permitted ratio of a statement's executions in the two runs. The ratio is 2 for work per Node or
	// pod, slightly more for sorting, and 4 for work per pair of Nodes or pods.
	maxGrowth = 2.5
	// chance is the permitted number of additional executions. The order of goroutines changes the count of some
	// statements, by at most one per pod.
	chance = 2 * growthSize
)

// TestGrowth checks that no statement does work per pair of Nodes or pods. It runs a test twice, the second time with
// twice as many Nodes or pods. It counts the executions of each statement with the instrumentation for coverage. So the
// result does not depend on time.
func TestGrowth(t *testing.T) {
	for _, tt := range []struct{ name, folder, test string }{
		{"nodes", "nodes", "TestLargeFleet"},
		{"pods", "workloads", "TestManyPods"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			binary := counting(t, tt.folder)
			once := executions(t, binary, tt.test, "-size="+strconv.Itoa(growthSize))
			twice := executions(t, binary, tt.test, "-size="+strconv.Itoa(2*growthSize))
			compared := 0
			for at, n := range twice {
				if once[at] >= growthSize {
					compared++
				}
				if float64(n) > maxGrowth*float64(once[at])+chance {
					t.Errorf("%s ran %d times with %d %s, and %d times with %d", at, once[at], growthSize, tt.name, n, 2*growthSize)
				}
			}
			t.Logf("%d statements depend on the number of %s", compared, tt.name)
			if compared < 100 {
				t.Error("too few statements ran")
			}
		})
	}
}

// TestScrapeRendersNothing checks that a scrape does not render the series of unchanged pods again.
func TestScrapeRendersNothing(t *testing.T) {
	binary := counting(t, "workloads")
	few := executions(t, binary, "TestManyPods", "-size="+strconv.Itoa(growthSize), "-scrapes=2")
	many := executions(t, binary, "TestManyPods", "-size="+strconv.Itoa(growthSize), "-scrapes=12")
	rendering := 0
	for at, n := range many {
		if !strings.Contains(at, "/workloads/series.go:") || few[at] == 0 {
			continue
		}
		rendering++
		if n > few[at]+3*10*growthSize/5 { // each scrape renders some gauges again, but not the series of pods
			t.Errorf("%s ran %d times with few scrapes, and %d times with 30 more", at, few[at], n)
		}
	}
	if rendering < 10 {
		t.Errorf("only %d statements of the renderer ran", rendering)
	}
}

// counting builds the tests of a package with coverage, so that the tests count the executions of each statement.
func counting(t *testing.T, folder string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "test")
	pkg := "github.com/gpuledger/gpuledger/internal/reconciler/" + folder
	if err := program.Depend(t.Context(), "-test", pkg); err != nil {
		t.Fatal(err)
	}
	execute(t, "go", "test", "-c", "-trimpath", "-vet=off", "-ldflags=-s -w", "-covermode=atomic", "-coverpkg=github.com/gpuledger/gpuledger/internal/...",
		"-o", binary, pkg)
	return binary
}

func executions(t *testing.T, binary, test string, flags ...string) map[string]int {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "profile")
	execute(t, binary, append([]string{"-test.run=^" + test + "$", "-test.coverprofile=" + profile}, flags...)...)
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	ran := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		// A line of a coverage profile has the format FILE:LINE.COLUMN,LINE.COLUMN STATEMENTS EXECUTIONS.
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue // the first line contains the mode of the coverage and no counts
		}
		if ran[fields[0]], err = strconv.Atoi(fields[2]); err != nil {
			t.Fatal(err)
		}
	}
	return ran
}

func execute(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("%s %v: %w\n%s", name, args, err, out))
	}
}
