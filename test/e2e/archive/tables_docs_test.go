//go:build e2e

package archive_test

import (
	"flag"
	"fmt"
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

// exampleSinks files the example of the documents in a folder with Parquet files and in a file of SQLite, both named archive.
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

// TestDocumentedDuckDB runs the statements of docs/tables.md on the example, and compares their answers with the answers of the same questions
// in docs/archive.md.
func TestDocumentedDuckDB(t *testing.T) {
	dir := exampleSinks(t)
	want := make(map[string][]string)
	for _, q := range documented(t) {
		want[q.title] = q.answer
	}
	all := questions(t, text(t, "../../../docs/tables.md"))
	if len(all) != 5 {
		t.Fatalf("%d statements", len(all))
	}
	views := strings.ReplaceAll(all[0].sql, "'archive/", "'"+dir+"/archive/")
	for _, q := range all[1:] {
		var got []string
		for _, row := range duckdb(t, views+q.sql) {
			for i, value := range row {
				row[i] = strings.TrimSuffix(value, ":00+00") // times without seconds
			}
			got = append(got, strings.Join(row, " | "))
		}
		if diff := cmp.Diff(want[q.title], got); diff != "" || len(want[q.title]) == 0 {
			t.Errorf("%s (-docs/archive.md +DuckDB):\n%s", q.title, diff)
		}
	}
}

var runPandas = flag.Bool("pandas", false, "run the program for pandas in docs/tables.md")

// python matches a program in the document.
var python = regexp.MustCompile("(?s)```python\n(.*?)```")

// TestPandas runs the program of docs/tables.md on the example.
func TestPandas(t *testing.T) {
	if !*runPandas {
		t.Skip("make e2e-pandas runs it, with Debian's python3-pandas")
	}
	c := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", python.FindStringSubmatch(text(t, "../../../docs/tables.md"))[1])
	c.Dir = exampleSinks(t)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := make(map[string]bool) // the rounded answer in docs/archive.md
	for _, q := range documented(t) {
		if strings.HasPrefix(q.title, "kWh and GPU hours of each team") {
			for _, row := range q.answer {
				want[row] = true
			}
		}
	}
	got := make(map[string]bool)
	for _, row := range strings.Split(strings.TrimSpace(string(out)), "\n")[1:] {
		v := strings.Split(row, ",")
		energy, err := strconv.ParseInt(v[2], 10, 64)
		check(t, err)
		gpu, err := strconv.ParseInt(v[3], 10, 64)
		check(t, err)
		got[fmt.Sprintf("%s | %s | %.2f | %.1f", v[0], v[1], float64(energy)/kilowattHour, float64(gpu)/3.6e6)] = true
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("sums (-docs/archive.md +pandas):\n%s\n%s", diff, out)
	}
}
