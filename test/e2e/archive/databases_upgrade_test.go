//go:build e2e

package archive_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	archived "github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// testUpgrade migrates tables and a view from an earlier version, which did not support units.
func testUpgrade(t *testing.T, kind databases, server *server, file func(args ...string) (string, error)) {
	t.Helper()
	url, db := server.create(t, "older")
	script := schema(t, kind)
	before, _, found := strings.Cut(script, "-- Version 4.")
	if !found {
		t.Fatal("the script has no version 4")
	}
	const columns = `cluster, hour, node, uuid, serial, namespace, pod, pod_uid, workload_kind, workload_name, workload_uid, team, reason,
		energy_mj, exclusive_mj, idle_mj, held_ms, gpu_ms, active_ms`
	view := func(revision, from string) string {
		return "select " + strings.Replace(columns, "hour,", "hour, "+revision+",", 1) + " from " + from
	}
	older := before + "insert into schema_version values (3);\ncreate view billed as " + view("0 as revision", "charges") + " union all " + view("revision", "corrections") + ";\n"
	if kind.name == "PostgreSQL" {
		for _, of := range slices.Concat(table.Data, table.Appended) { // earlier versions did not create default partitions; they created tables in this way
			older += fmt.Sprintf("create table gpuledger.%[1]s_2026_03 partition of gpuledger.%[1]s for values from ('2026-03-01') to ('2026-04-01');\n", of.Name)
		}
	}
	noon := began.Add(12 * time.Hour).Format(time.DateTime)
	older += "insert into charges (" + columns + ") values ('west', '" + noon + "', 'n', 'GPU-1', '', 'ml', 'p', 'u', '', '', '', '', '', 7, 0, 0, 0, 0, 0);\n" +
		"insert into hours values ('west', '" + noon + "', 'complete', 1, 0, 1, 7, 0, 0, '');\n"
	if strings.HasPrefix(older, "begin;") {
		older += "commit;\n"
	}
	server.script(t, "older", older)
	readEarlier(t, url)
	if out, err := file(kind.flag + "=" + url); err != nil {
		t.Fatalf("with tables of version 3: %v\n%s", err, out)
	}
	for text, want := range map[string][]string{
		"select pod, manager, unit, username, energy_mj from billed where cluster = 'west'": {"p |  |  |  | 7"},
		"select pod, began, ended from allocations where cluster = 'west'":                  {"p | 2026-03-01 12:00 | 2026-03-01 13:00"},
		"select pod, day, hours, energy_mj from days where cluster = 'west'":                {"p | 2026-03-01 | 1 | 7"},
		"select distinct manager from charges where cluster = 'east' order by manager":      {"", "slurm"},
		"select max(version) from schema_version":                                           {latest(t, kind)},
	} {
		if diff := cmp.Diff(want, db.rows(t, text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// readEarlier checks that the program can read tables of an earlier version, which have no columns for estimates.
func readEarlier(t *testing.T, url string) {
	t.Helper()
	source, err := archived.OpenDatabase(t.Context(), url, "")
	check(t, err)
	defer source.Close()
	of := archived.Query{From: began, Until: began.AddDate(0, 0, 2), By: []string{"namespace"}, Checks: true}
	st, err := source.Statement(t.Context(), of)
	check(t, err)
	want := []table.Charge{{Namespace: "ml", Energy: 7}}
	if diff := cmp.Diff(want, st.Charges); diff != "" {
		t.Errorf("charges of earlier tables (-want +got):\n%s", diff)
	}
	if st.Bounded {
		t.Errorf("uncounted energy of earlier tables: %v", st.Uncounted)
	}
	for g, err := range source.Rows(t.Context(), of) {
		check(t, err)
		t.Errorf("GPU %+v", g)
	}
}

func latest(t *testing.T, kind databases) string {
	t.Helper()
	migrations, err := kind.dialect.Migrations()
	check(t, err)
	return strconv.Itoa(len(migrations))
}

// schema returns the output of the command schema, with partitions for the time of the histories.
func schema(t *testing.T, kind databases) string {
	t.Helper()
	script, err := exec.Command(binary(), "schema", kind.dialect.Name, "--from="+began.Format(time.DateOnly), "--until="+began.AddDate(0, 0, 1).Format(time.DateOnly)).Output()
	check(t, err)
	return string(script)
}
