//go:build e2e

package archive_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/program"
)

// duckDB is a program that runs queries in DuckDB, each in a new database.
type duckDB struct {
	queries *json.Encoder
	rows    *json.Decoder
	failure *strings.Builder
}

func openDuckDB(t *testing.T) duckDB {
	t.Helper()
	cmd := exec.Command("node", filepath.Join(os.Getenv("GPULEDGER_E2E_DUCKDB"), "query.mjs"))
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	d := duckDB{json.NewEncoder(in), json.NewDecoder(out), &strings.Builder{}}
	cmd.Stderr = d.failure
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // the program ends
		if err := cmd.Wait(); err != nil {
			t.Errorf("DuckDB: %v\n%s", err, d.failure)
		}
	})
	return d
}

// query returns null for each NULL.
func (d duckDB) query(t *testing.T, sql, null string) (rows [][]string) {
	t.Helper()
	check(t, d.queries.Encode(sql))
	var found [][]*string
	if err := d.rows.Decode(&found); err != nil {
		t.Fatalf("%v in DuckDB:\n%s", err, sql)
	}
	for _, values := range found {
		row := make([]string, len(values))
		for i, value := range values {
			row[i] = null
			if value != nil {
				row[i] = *value
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func parquet(folder, table string) string {
	return fmt.Sprintf("read_parquet('%s/%s/*/*/*.parquet', hive_partitioning = true)", folder, table)
}

// TestDuckDB checks with DuckDB, an independent reader, that the Parquet files in a folder and in a bucket have the
// same columns, types and values as the CSV files.
func TestDuckDB(t *testing.T) {
	t.Parallel()
	s := foldtest.NewStore()
	foldtest.NewFleet(s, began, 8, 4, "cluster", "east/1").Run(hours * 60)
	foldtest.NewFleet(s, began, 9, 2, "cluster", "west").Run(hours * 60)
	duck := openDuckDB(t)
	objects, endpoint := bucket(t, program.OpenFor(t))
	folder := t.TempDir()
	fileHours(t, folder, "--store.url="+simulated(t, s), "--s3.endpoint="+endpoint, "--s3.url=s3://assets")
	for _, place := range []string{folder, objects} {
		for _, tt := range []table.Table{table.GPUHours, table.Charges, table.Hours} {
			compare(t, duck, tt, folder, place)
		}
		var total int64
		for _, energy := range sum(t, rows(t, folder, "gpu_hours"), "energy_mj", "cluster") {
			total += energy
		}
		want := [][]string{{strconv.FormatInt(total, 10), "2026-03-01 00:00:00+00", "2026-03-02", "2"}}
		got := duck.query(t, "select sum(energy_mj), min(hour), max(date), count(distinct cluster) from "+parquet(place, "charges"), "")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("energy, first hour, last day, clusters (-CSV +DuckDB):\n%s", diff)
		}
	}
}

func compare(t *testing.T, duck duckDB, of table.Table, csv, place string) {
	t.Helper()
	types := map[table.Type]string{table.Text: "VARCHAR", table.Int: "BIGINT", table.OptionalInt: "BIGINT", table.Time: "TIMESTAMP WITH TIME ZONE"}
	var columns, selected []string
	for _, c := range of.Columns {
		columns = append(columns, c.Name+" "+types[c.Type])
		if c.Type == table.Time {
			selected = append(selected, "coalesce(strftime("+c.Name+", '%Y-%m-%dT%H:%M:%S.%gZ'), '')")
		} else {
			selected = append(selected, c.Name)
		}
	}
	var described []string
	for _, row := range duck.query(t, "describe select * from "+parquet(place, of.Name), "") {
		described = append(described, row[0]+" "+row[1])
	}
	if diff := cmp.Diff(append(columns, "date DATE"), described); diff != "" {
		t.Errorf("columns of %s (-table +DuckDB):\n%s", of.Name, diff)
	}
	var got []string
	for _, row := range duck.query(t, "select "+strings.Join(selected, ", ")+" from "+parquet(place, of.Name), "") {
		got = append(got, strings.Join(row, "|"))
	}
	slices.Sort(got)
	if diff := cmp.Diff(texts(of, rows(t, csv, of.Name)), got); diff != "" {
		t.Errorf("rows of %s (-CSV +DuckDB):\n%s", of.Name, diff)
	}
}

func texts(of table.Table, rows []map[string]string) []string {
	var all []string
	for _, row := range rows {
		texts := make([]string, len(of.Columns))
		for i, c := range of.Columns {
			texts[i] = row[c.Name]
		}
		all = append(all, strings.Join(texts, "|"))
	}
	slices.Sort(all)
	return all
}
