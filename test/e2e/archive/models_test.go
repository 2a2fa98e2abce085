//go:build e2e

package archive_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const project = "../../../manifests/examples/dbt/"

// call matches a call in braces, such as {{ ref('gpu_billed') }}. macro matches the definition of a macro for one
// adapter, with the parameter column. commented matches a table expression in a YAML comment.
var (
	call      = regexp.MustCompile(`\{\{ (\w+)\('([^']*)'(?:, '([^']*)')?\) \}\}`)
	macro     = regexp.MustCompile(`(?s)\{% macro (\w+)__(\w+)\(column\) %\}(.*?)\{% endmacro %\}`)
	commented = regexp.MustCompile(`(?m)^( *)# (meta: .*)$`)
)

// dbt renders the models of the project like the program dbt. It supports only the calls that the models contain.
type dbt struct {
	*testing.T
	adapter string
	vars    map[string]string
	macros  map[string]string // bodies of macros, by adapter and name
	sources map[string]string // table expression of each source
	columns map[string][]string
	answers map[string][]string // rows by query
}

type dbtSchema struct {
	Sources []struct {
		Schema string
		Meta   struct {
			Location string `json:"external_location"`
		}
		Tables []struct {
			Name, Description string
			Meta              struct {
				Location string `json:"external_location"`
			}
		}
	}
	Models []struct {
		Name, Description string
		Columns           []struct{ Name, Description string }
	}
}

// newDBT sets the given variables. If bare is set, the folder has no files for some tables. newDBT then uses the table
// expressions that are comments in schema.yml.
func newDBT(t *testing.T, adapter string, bare bool, vars map[string]string) *dbt {
	t.Helper()
	var config struct{ Vars map[string]string }
	check(t, yaml.Unmarshal([]byte(text(t, project+"dbt_project.yml")), &config))
	for name, value := range vars {
		if config.Vars[name] == "" {
			t.Fatalf("%s is not in dbt_project.yml", name)
		}
		config.Vars[name] = value
	}
	d := &dbt{T: t, adapter: adapter, vars: config.Vars, macros: make(map[string]string), sources: make(map[string]string), columns: make(map[string][]string), answers: make(map[string][]string)}
	for _, m := range macro.FindAllStringSubmatch(text(t, project+"macros/utc.sql"), -1) {
		d.macros[m[1]+"__"+m[2]] = m[3]
	}
	var s dbtSchema
	yml := text(t, project+"models/schema.yml")
	if bare {
		yml = commented.ReplaceAllString(yml, "$1$2")
	}
	check(t, yaml.Unmarshal([]byte(yml), &s))
	for _, table := range s.Sources[0].Tables {
		location := table.Meta.Location
		if location == "" {
			location = strings.ReplaceAll(s.Sources[0].Meta.Location, "{name}", table.Name)
		}
		if adapter != "duckdb" {
			location = s.Sources[0].Schema + "." + table.Name
		}
		d.sources[table.Name] = d.render(location)
	}
	for _, m := range s.Models {
		for _, c := range m.Columns {
			d.columns[m.Name] = append(d.columns[m.Name], c.Name)
			if c.Description == "" || m.Description == "" {
				t.Errorf("%s.%s has no description", m.Name, c.Name)
			}
		}
	}
	return d
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	check(t, err)
	return string(b)
}

// model replaces each reference to another model with a nested query.
func (d *dbt) model(name string) string { return d.render(text(d.T, project+"models/"+name+".sql")) }

func (d *dbt) render(sql string) string {
	return call.ReplaceAllStringFunc(sql, func(found string) string {
		m := call.FindStringSubmatch(found)
		switch m[1] {
		case "var":
			if d.vars[m[2]] == "" {
				d.Fatalf("%s is not in dbt_project.yml", found)
			}
			return d.vars[m[2]]
		case "ref":
			return "(" + d.model(m[2]) + ")"
		case "source":
			return d.sources[m[3]]
		}
		body, ok := d.macros[d.adapter+"__"+m[1]]
		if !ok {
			body = d.macros["default__"+m[1]]
		}
		if body == "" {
			d.Fatalf("%s is not a macro", found)
		}
		return strings.ReplaceAll(body, "{{ column }}", m[2])
	})
}

type engine struct {
	name string
	*dbt
	rows func(sql string) []string // runs a query; the values of a row are separated by " | "
}

func (e engine) query(model string, columns ...string) []string {
	e.Helper()
	sql := "select " + strings.Join(columns, ", ") + " from (" + e.model(model) + ") as model"
	if _, ok := e.answers[sql]; !ok {
		e.answers[sql] = e.rows(sql)
		slices.Sort(e.answers[sql])
	}
	return e.answers[sql]
}

// engines uses a PostgreSQL session whose time zone is not UTC.
func engines(t *testing.T, folder, file string, postgres query) []engine {
	t.Helper()
	_, err := os.Stat(filepath.Join(folder, "corrections"))
	duck, models := openDuckDB(t), newDBT(t, "duckdb", os.IsNotExist(err), map[string]string{"archive_folder": folder})
	sqlite := openFile(t, file)
	return []engine{
		{"PostgreSQL", newDBT(t, "postgres", false, nil), func(sql string) []string { return postgres.rows(t, sql) }},
		{"SQLite", newDBT(t, "sqlite", false, map[string]string{"archive_schema": "main"}), func(sql string) []string { return sqlite.rows(t, sql) }},
		{"DuckDB", models, func(sql string) (lines []string) {
			for _, row := range duck.query(t, "set timezone = 'America/New_York'; "+sql, "-") {
				lines = append(lines, strings.Join(row, " | "))
			}
			return lines
		}},
	}
}

func same(t *testing.T, all []engine) {
	t.Helper()
	names, err := filepath.Glob(project + "models/*.sql")
	check(t, err)
	if len(names) != len(all[0].columns) {
		t.Errorf("%d models, of which %d are in schema.yml", len(names), len(all[0].columns))
	}
	for _, name := range names {
		model := strings.TrimSuffix(filepath.Base(name), ".sql")
		columns := all[0].columns[model]
		if diff := cmp.Diff(all[0].query(model, columns...), all[0].query(model, "*")); diff != "" {
			t.Errorf("%s (-columns of schema.yml +all columns):\n%s", model, diff)
		}
		columns = slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return c == "hour" }) // the format of times differs
		want := all[0].query(model, columns...)
		if len(want) == 0 {
			t.Errorf("%s has no rows", model)
		}
		for _, e := range all[1:] {
			if diff := cmp.Diff(want, e.query(model, columns...)); diff != "" {
				t.Errorf("%s (-%s +%s):\n%s", model, all[0].name, e.name, diff)
			}
		}
	}
}

// TestModels compares the results of the models on PostgreSQL, SQLite and DuckDB with simulated fleets.
func TestModels(t *testing.T) {
	t.Parallel()
	s := foldtest.NewStore()
	fleets := map[string]*foldtest.Fleet{"east/1": foldtest.NewFleet(s, began, 8, 4, "cluster", "east/1"), "west": foldtest.NewFleet(s, began, 9, 2, "cluster", "west")}
	for _, f := range fleets {
		f.Run(hours * 60)
	}
	server := startPostgres(t)
	url, _ := server.create(t, "gpuledger")
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "archive.db")
	fileHours(t, folder, "--store.url="+simulated(t, s), "--postgres.url="+url, "--sqlite="+file)
	all := engines(t, folder, file, server.elsewhere(t, "gpuledger"))
	same(t, all)
	want := make(map[string]int64)
	for cluster, f := range fleets {
		for _, n := range f.Nodes {
			want[cluster+" | boards"] += n.Board.Energy
			for uid, use := range n.Pods {
				_, number, _ := strings.Cut(uid, "-")
				if !unit(number) {
					want[cluster+" | ml"] += use.Energy
				} else if use.Energy > 0 {
					want[cluster+" | "+uid] += use.Energy
				}
			}
		}
	}
	for _, e := range all {
		got := make(map[string]int64)
		for _, row := range e.query("gpu_monthly", "cluster", "namespace", "unit", "month", "energy_mj") {
			v := strings.Split(row, " | ")
			n, err := strconv.ParseInt(v[4], 10, 64)
			check(t, err)
			got[v[0]+" | boards"] += n
			if owner := v[1] + v[2]; owner != "" {
				got[v[0]+" | "+owner] += n
			}
			if v[3] != "2026-03-01" {
				t.Errorf("%s: month %s", e.name, v[3])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) < 20 {
			t.Errorf("%s: energy in mJ (-simulated +returned):\n%s", e.name, diff)
		}
	}
	compareCommands(t, all, "2026-03", folder)
}

// commands pairs a command with the model that returns equal sums. Both return the columns in by and in amounts.
var commands = []struct{ command, model, by, amounts string }{
	{"statement --by=team,reason,cluster", "gpu_monthly_teams", "cluster,team,reason", "energy_mj,exclusive_mj,idle_mj,estimated_mj,gpu_ms,active_ms,busy_ms,tensor_active_ms,dram_active_ms"},
	{"statement --by=model,reason,cluster", "gpu_monthly_models", "cluster,model,reason", "energy_mj,exclusive_mj,idle_mj,estimated_mj,gpu_ms,active_ms,busy_ms,tensor_active_ms,dram_active_ms"},
	{"statement --by=namespace,workload,team,unit,user,reason,cluster", "gpu_monthly", "cluster,namespace,workload_kind,workload_name,team,reason,manager,unit,username", "energy_mj,idle_mj,gpu_ms"},
	{"idle --by=namespace,team,cluster", "gpu_monthly_idle", "cluster,namespace,team", "idle_mj,gpu_ms,idle_gpu_ms"},
}

func compareCommands(t *testing.T, all []engine, month, books string) {
	t.Helper()
	for _, tt := range commands {
		want := make(map[string][]int64)
		by, amounts := strings.Split(tt.by, ","), strings.Split(tt.amounts, ",")
		answer := ask(t, append(strings.Fields(tt.command), "--month="+month, "-o", "json", "--books="+books)...)
		for _, row := range answer.Rows {
			if row["line"] != "group" {
				continue
			}
			var values []string
			for _, name := range by {
				text, _ := row[name].(string)
				values = append(values, strings.ReplaceAll(text, "(pods and units)", ""))
			}
			for _, name := range amounts {
				n, known := row[name].(float64)
				if !known {
					n = unknown
				}
				values = append(values, strconv.FormatInt(int64(n), 10))
			}
			addRow(t, want, values, len(by))
		}
		for _, e := range all {
			got := make(map[string][]int64)
			for _, row := range e.query(tt.model, slices.Concat([]string{"month"}, by, amounts)...) {
				if values := strings.Split(row, " | "); values[0] == month+"-01" {
					addRow(t, got, values[1:], len(by))
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || len(want) < 2 {
				t.Errorf("%s, %s: %s (-command +model):\n%s%s", e.name, month, tt.command, diff, answer.errors)
			}
		}
	}
}

// unknown represents NULL, so that NULL differs from 0.
const unknown = -1

// addRow adds the numbers in a row to sums. The first columns are strings that form the key. texts is the number of
// these columns.
func addRow(t *testing.T, sums map[string][]int64, values []string, texts int) {
	t.Helper()
	key := strings.Join(values[:texts], " | ")
	if sums[key] == nil {
		sums[key] = make([]int64, len(values)-texts)
	}
	for i, value := range values[texts:] {
		if value == "-" {
			value = strconv.Itoa(unknown)
		}
		n, err := strconv.ParseInt(value, 10, 64)
		check(t, err)
		sums[key][i] += n
	}
}

// TestModelsOfPruned compares the models with sums that the test computes, for three months. The first month is pruned.
// The other two months have corrections.
func TestModelsOfPruned(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	url, _ := server.create(t, "gpuledger")
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "archive.db")
	var sinks []closer
	for _, open := range []func() (closer, error){
		func() (closer, error) { return files.Open(folder, []string{"csv", "parquet"}) },
		func() (closer, error) { return database.SQLite.Open(t.Context(), file, "") },
		func() (closer, error) { return database.Postgres.Open(t.Context(), url, "") },
	} {
		sink, err := open()
		check(t, err)
		sinks = append(sinks, sink)
	}
	random := rand.New(rand.NewPCG(5, 6))
	september := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	models := func(at time.Time) map[string]string { // a driver upgrade on the first day of October renames models
		if at.Before(september.Add(721 * time.Hour)) {
			return map[string]string{"GPU-0": "H100", "GPU-1": "A100"}
		}
		return map[string]string{"GPU-0": "A100", "GPU-1": "B200"}
	}
	want := make(map[string]int64) // energy by model, month, team and reason
	add := func(h *table.Hour, c table.Charge) {
		want[strings.Join([]string{h.Start.Format("2006-01"), models(h.Start)[c.UUID], c.Team, c.Reason}, " | ")] += c.Energy
	}
	for _, n := range []int{0, 1, 719, 720, 721, 1463, 1464, 1500} { // hours around the ends of months
		h := &table.Hour{Cluster: "east", Start: september.Add(time.Duration(n) * time.Hour)}
		for i := range 2 {
			uuid := fmt.Sprintf("GPU-%d", i)
			g := table.GPU{Node: "a", UUID: uuid, Model: models(h.Start)[uuid], Scrapes: 60, First: h.Start, Last: h.Start.Add(time.Minute)}
			number := func() int64 { return random.Int64N(1 << 40) }
			for _, c := range []table.Charge{
				{Namespace: "ml", Pod: "p", PodUID: "u", Team: []string{"", "équipe"}[n%2], WorkloadKind: "Job", WorkloadName: "j"},
				{Manager: "slurm", Unit: "7", Username: "alice", Team: "physics"},
				{Reason: "idle"},
			} {
				c.Node, c.UUID, c.Energy = "a", g.UUID, number()
				if c.Reason == "" {
					c.Exclusive, c.Idle, c.Estimated, c.Held, c.GPUTime, c.Active, c.Busy = number(), number(), number(), number(), number(), number(), number()
					c.Began, c.Ended = h.Start, h.Start.Add(time.Minute)
				}
				if c.Manager != "" && (i == 1 || n%2 == 1) { // the corrections remove the profiled time of GPU-0
					c.Profiled, c.TensorActive, c.DRAMActive = new(number()), new(number()), new(int64(0))
				}
				g.Energy += c.Energy
				h.Charges = append(h.Charges, c)
				add(h, c)
			}
			h.GPUs = append(h.GPUs, g)
		}
		sinktest.Complete(h)
		correction := h.Charges[0]
		correction.Energy, correction.GPUTime = -5, 7
		next := *h
		unprofiled := slices.Clone(h.Charges)
		unprofiled[1].Profiled, unprofiled[1].TensorActive, unprofiled[1].DRAMActive = nil, nil, nil
		next.Revision, next.State, next.Digest, next.Corrections = 2, table.Corrected, "other", append(table.Difference(h.Charges, unprofiled), correction)
		for _, sink := range sinks {
			check(t, sink.Replace(t.Context(), h))
			if n%2 == 1 {
				check(t, sink.Correct(t.Context(), &next))
			}
		}
		if n%2 == 1 {
			add(h, correction)
		}
	}
	for _, sink := range sinks {
		check(t, sink.Prune(t.Context(), september.AddDate(0, 1, 0), false, func(table.Deleted) {}))
		check(t, sink.Close())
	}
	all := engines(t, folder, file, server.elsewhere(t, "gpuledger"))
	same(t, all)
	for _, e := range all {
		got := make(map[string]int64)
		for _, row := range e.query("gpu_monthly", "month", "model", "team", "reason", "energy_mj") {
			v := strings.Split(row, " | ")
			n, err := strconv.ParseInt(v[4], 10, 64)
			check(t, err)
			got[strings.Join([]string{v[0][:7], v[1], v[2], v[3]}, " | ")] += n
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: energy in mJ (-added up +returned):\n%s", e.name, diff)
		}
		daily := slices.Compact(slices.Clone(e.query("gpu_daily", "day")))
		if diff := cmp.Diff([]string{"2026-10-01", "2026-10-31", "2026-11-01", "2026-11-02"}, daily); diff != "" {
			t.Errorf("%s: days (-filed +returned):\n%s", e.name, diff)
		}
	}
	for _, month := range []string{"2026-09", "2026-10", "2026-11"} {
		compareCommands(t, all, month, folder)
	}
}
