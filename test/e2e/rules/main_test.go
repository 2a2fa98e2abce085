//go:build e2e

// Package rules_test checks the recording rules, the alerts, and the documented queries that need no server. promtool
// evaluates them on simulated histories in which boards move, nodes reboot and scrapers are down.
package rules_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/test/promdoc"
	"github.com/gpuledger/gpuledger/test/prometheus"
	"github.com/gpuledger/gpuledger/test/worlds"
)

const (
	ruleFiles = "../../../dashboards/rules/*.yaml"
	ruleTests = "../../../dashboards/rules/tests/*.yaml"
)

func promtool(t *testing.T, args ...string) {
	t.Helper()
	check(t, programs(t).Promtool(t.Context(), args...))
}

func programs(t *testing.T) prometheus.Programs {
	t.Helper()
	p, err := prometheus.FromEnv()
	check(t, err)
	return p
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	check(t, err)
	if len(files) == 0 {
		t.Fatalf("no file matches %s", pattern)
	}
	for i := range files {
		files[i], err = filepath.Abs(files[i])
		check(t, err)
	}
	return files
}

func rules(name string) string { return filepath.Join(filepath.Dir(ruleFiles), name) }

// TestRules checks that promtool accepts the rules, and that their unit tests pass. In a short run, each test evaluates
// only its own alerts. TestScenarios evaluates all alerts together.
func TestRules(t *testing.T) {
	promtool(t, append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, glob(t, ruleFiles)...)...)
	files := glob(t, ruleTests)
	if testing.Short() {
		var short []string
		for _, file := range files {
			short = append(short, narrowed(t, file)...)
		}
		files = short
	}
	promtool(t, append([]string{"test", "rules"}, files...)...)
}

// A world contains a history of samples and queries about it. promtool evaluates the rules and the queries. Some
// queries need a server that contains the results of the rules.
type world struct {
	name      string
	history   *worlds.History
	evaluate  time.Duration // interval at which promtool evaluates the rules
	phase     time.Duration // time of the first evaluation, since the beginning of the history
	rules     []string      // rule files with results that the server contains
	record    bool          // set if queries that read the hourly rule are also evaluated on the metric that the rule reads
	questions []question
}

// at is the time since the beginning of the history.
type question struct {
	title     string // title of the query in the document
	at        time.Duration
	variables map[string]string
	want      map[string]float64 // expected values by the labels of a sample, as promtool writes them
}

// TestQueries checks every documented query.
func TestQueries(t *testing.T) {
	boards, err := promdoc.Read("../../../docs/queries.md")
	check(t, err)
	joins, err := promdoc.Read("../../../docs/joins.md")
	check(t, err)
	doc := slices.Concat(boards.Part("Boards and history"), boards.Part("Units"), joins)
	asked := make(map[string]bool)
	for _, w := range allWorlds() {
		t.Run(w.name, func(t *testing.T) {
			w.run(t, doc)
		})
		for _, q := range w.questions {
			asked[q.title] = true
		}
	}
	for _, q := range doc {
		if !asked[q.Title] {
			t.Errorf("no expected answer to %q", q.Title)
		}
	}
}

func allWorlds() []world {
	all := []world{statement(), late(), clusterStatements(), boards(), clusters(), joins(), globalJoins(), units()}
	return append(all, statementAtPhases()...)
}

func (w world) run(t *testing.T, doc promdoc.Doc) {
	t.Helper()
	var tests []expressionTest
	answer := func(text string, q question) { tests = append(tests, expect(text, q.at-w.phase, q.want)) }
	if w.evaluate == 0 {
		url := serve(t, w.history, w.rules)
		answer = func(text string, q question) { ask(t, url, text, q) }
	}
	for _, q := range w.questions {
		text, err := doc.Query(q.title, q.variables)
		check(t, err)
		answer(text, q)
		if raw := strings.ReplaceAll(text, worlds.Rollup, worlds.Placement); w.record && raw != text {
			answer(raw, q)
		}
	}
	if w.evaluate > 0 {
		evaluate(t, w.history, w.phase, w.evaluate, tests)
	}
}

// expressionTest is in promtool's format.
type expressionTest struct {
	Expr     string           `json:"expr"`
	EvalTime string           `json:"eval_time"`
	Samples  []expectedSample `json:"exp_samples"`
}

type expectedSample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

func expect(expr string, at time.Duration, want map[string]float64) expressionTest {
	test := expressionTest{Expr: expr, EvalTime: at.String(), Samples: []expectedSample{}}
	for labels, value := range want {
		test.Samples = append(test.Samples, expectedSample{labels, value})
	}
	return test
}

// evaluate lets promtool evaluate the rules over the history, beginning at the phase. The times in tests are relative
// to the phase.
func evaluate(t *testing.T, h *worlds.History, phase, evaluate time.Duration, tests []expressionTest) {
	t.Helper()
	promtoolTest(t, map[string]any{"evaluation_interval": evaluate.String(), "fuzzy_compare": true}, []testGroup{groupOf(h, phase, tests)})
}

// testGroup is in promtool's format.
type testGroup map[string]any

// groupOf evaluates the rules until an hour after the last expression, because rules compute the energy of an hour in
// the next hour.
func groupOf(h *worlds.History, phase time.Duration, tests []expressionTest) testGroup {
	last := time.Duration(0)
	for _, t := range tests {
		at, err := time.ParseDuration(t.EvalTime)
		if err != nil {
			panic(err)
		}
		last = max(last, at)
	}
	tests = append(tests, expect("vector(1)", last+time.Hour, map[string]float64{"{}": 1}))
	group := testGroup{"interval": h.Interval.String(), "input_series": h.Render(phase), "promql_expr_test": tests}
	if phase > 0 {
		group["start_timestamp"] = int(phase.Seconds())
	}
	return group
}

// The last digits of floating-point sums may differ. The option fuzzy_compare permits this, but the oldest supported
// version of promtool lacks it.
func promtoolTest(t *testing.T, options map[string]any, groups []testGroup) {
	t.Helper()
	runTests(t, glob(t, ruleFiles), options, groups)
}

func runTests(t *testing.T, files []string, options map[string]any, groups []testGroup) {
	t.Helper()
	options["rule_files"], options["tests"] = files, groups
	document, err := json.Marshal(options)
	check(t, err)
	file := filepath.Join(t.TempDir(), "test.json")
	check(t, os.WriteFile(file, document, 0o600))
	promtool(t, "test", "rules", file)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
