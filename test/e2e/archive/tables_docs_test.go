//go:build e2e

package archive_test

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/files"
)

// exampleSinks writes the documented example to a folder of Parquet files and to an SQLite file. Both have the name
// archive.
func exampleSinks(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	folder, err := files.Open(filepath.Join(dir, "archive"), []string{"parquet"})
	check(t, err)
	fileExample(t, folder)
	check(t, folder.Close())
	file, err := database.SQLite.Open(t.Context(), filepath.Join(dir, "archive.db"), "")
	check(t, err)
	fileExample(t, file)
	check(t, file.Close())
	return dir
}

// TestDocumentedDuckDB runs the statements in docs/tables.md. Their answers must equal the answers to the same
// questions in docs/archive.md.
func TestDocumentedDuckDB(t *testing.T) {
	t.Parallel()
	dir := exampleSinks(t)
	want := make(map[string][]string)
	for _, q := range documented(t) {
		want[q.title] = q.answer
	}
	all := questions(t, text(t, "../../../docs/tables.md"))
	if len(all) != 5 {
		t.Fatalf("%d statements", len(all))
	}
	duck := openDuckDB(t)
	views := strings.ReplaceAll(all[0].sql, "'archive/", "'"+dir+"/archive/")
	for _, q := range all[1:] {
		var got []string
		for _, row := range duck.query(t, views+q.sql, "") {
			for i, value := range row {
				row[i] = strings.TrimSuffix(value, ":00+00") // times have no seconds
			}
			got = append(got, strings.Join(row, " | "))
		}
		if diff := cmp.Diff(want[q.title], got); diff != "" || len(want[q.title]) == 0 {
			t.Errorf("%s (-docs/archive.md +DuckDB):\n%s", q.title, diff)
		}
	}
}

var (
	runPandas = flag.Bool("pandas", false, "run the program for pandas in docs/tables.md")
	polars    = flag.String("polars", "", "folder with the npm package of Polars, to run the program for Polars in docs/tables.md")
)

func TestPandas(t *testing.T) {
	if !*runPandas {
		t.Skip("make e2e-pandas runs it, with Debian's python3-pandas")
	}
	checkTeams(t, exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", documentedProgram(t, "python")))
}

func TestPolars(t *testing.T) {
	if *polars == "" {
		t.Skip("make e2e-polars runs it, with the npm package of Polars")
	}
	c := exec.CommandContext(t.Context(), "node", "--eval", documentedProgram(t, "js"))
	c.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(*polars, "node_modules"))
	checkTeams(t, c)
}

func documentedProgram(t *testing.T, language string) string {
	t.Helper()
	found := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(text(t, "../../../docs/tables.md"))
	if found == nil {
		t.Fatalf("docs/tables.md has no program in %s", language)
	}
	return found[1]
}

// checkTeams runs a program in the folder of the example. After a heading, the program prints lines with the columns
// team, reason, energy_mj and gpu_ms. The lines must equal the rounded answer in docs/archive.md.
func checkTeams(t *testing.T, c *exec.Cmd) {
	t.Helper()
	c.Dir = exampleSinks(t)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := make(map[string]bool)
	for _, q := range documented(t) {
		if strings.HasPrefix(q.title, "kWh and GPU hours of each team") {
			for _, row := range q.answer {
				want[row] = true
			}
		}
	}
	got := make(map[string]bool)
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	check(t, err)
	for _, v := range rows[1:] {
		energy, err := strconv.ParseInt(v[2], 10, 64)
		check(t, err)
		gpu, err := strconv.ParseInt(v[3], 10, 64)
		check(t, err)
		got[fmt.Sprintf("%s | %s | %.2f | %.1f", v[0], v[1], float64(energy)/kilowattHour, float64(gpu)/3.6e6)] = true
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("sums (-docs/archive.md +program):\n%s\n%s", diff, out)
	}
}
