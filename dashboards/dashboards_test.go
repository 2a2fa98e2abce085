package dashboards_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/gpuledger/gpuledger/test/alerts"
	"github.com/gpuledger/gpuledger/test/promql"
)

// A panel may query these metrics of other exporters.
var foreign = []string{
	"up", "scrape_samples_scraped", "scrape_duration_seconds", // metrics of Prometheus
	"gpuledger_build_info",  // every exporter serves it
	"DCGM_FI_DEV_GPU_TEMP",  // metrics of dcgm-exporter
	"kube_namespace_labels", // metrics of kube-state-metrics
}

type file struct {
	UID           string
	Title         string
	Description   string
	Editable      *bool
	Refresh       string
	SchemaVersion int
	Templating    struct{ List []variable }
	Panels        []panel
}

type variable struct {
	Name, Type string
	Query      json.RawMessage
	Datasource source
}

func (v variable) expression() string {
	var query struct{ Query string }
	if v.Type != "query" || json.Unmarshal(v.Query, &query) != nil {
		return ""
	}
	return query.Query
}

type panel struct {
	Type, Title, Description string
	GridPos                  struct{ W, H float64 }
	Datasource               source
	Targets                  []struct {
		Expr       string
		Interval   string // minimum step, which determines the interval of a rate
		Datasource source
	}
	FieldConfig struct {
		Defaults  struct{ Unit, NoValue string }
		Overrides []struct {
			Matcher    struct{ Options string }
			Properties []property
		}
	}
}

type property struct {
	ID    string
	Value any
}

type source struct{ Type, UID string }

// own is the only valid data source of a panel: the user selects it.
var own = source{"prometheus", "${datasource}"}

func dashboards(t *testing.T) (map[string]file, map[string][]byte) {
	t.Helper()
	names, err := filepath.Glob("*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("found %v, %v", names, err)
	}
	files, texts := make(map[string]file), make(map[string][]byte)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var f file
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		files[name], texts[name] = f, text
	}
	return files, texts
}

// The UIDs of dashboards never change, because alerts and bookmarks use them.
var uids = map[string]string{
	"incident.json": "gpuledger-incident",
	"chassis.json":  "gpuledger-chassis",
	"gpu-life.json": "gpuledger-gpu-life",
	"energy.json":   "gpuledger-energy",
	"health.json":   "gpuledger-health",
	"fleet.json":    "gpuledger-fleet",

	"statement.json": "gpuledger-statement",
}

func TestDashboards(t *testing.T) {
	files, texts := dashboards(t)
	for name, f := range files {
		if f.UID != uids[name] {
			t.Errorf("%s: uid %q, want %q", name, f.UID, uids[name])
		}
		if f.Title == "" || f.Description == "" {
			t.Errorf("%s: title %q, description %q", name, f.Title, f.Description)
		}
		if f.Editable == nil || *f.Editable {
			t.Errorf("%s can be edited, and edits would be lost", name)
		}
		if refresh, err := time.ParseDuration(f.Refresh); err != nil || refresh < 30*time.Second {
			t.Errorf("%s: refresh %q, want 30s or more", name, f.Refresh)
		}
		// Later versions of Grafana migrate dashboards from the schema version of Grafana 10.
		if f.SchemaVersion != 39 {
			t.Errorf("%s: schemaVersion %d", name, f.SchemaVersion)
		}
		// A ConfigMap must be smaller than 1 MiB.
		if len(texts[name]) >= 1<<20 {
			t.Errorf("%s: %d bytes", name, len(texts[name]))
		}
		if vs := f.Templating.List; len(vs) < 2 || vs[0].Name != "datasource" || vs[1].Name != "cluster" {
			t.Errorf("%s: data source and cluster are not the first variables", name)
		}
		for _, v := range f.Templating.List {
			if v.Type == "query" && v.Datasource != own {
				t.Errorf("%s: variable %s has data source %v", name, v.Name, v.Datasource)
			}
		}
	}
	if len(files) != len(uids) {
		t.Errorf("%d dashboards, want %d", len(files), len(uids))
	}
}

// rateOfRecord matches counters that only the record contains.
var rateOfRecord = regexp.MustCompile(`gpuledger_(board|allocation|unit_allocation)_`)

func TestPanels(t *testing.T) {
	files, _ := dashboards(t)
	for name, f := range files {
		if len(f.Panels) == 0 {
			t.Errorf("%s has no panels", name)
		}
		titles := make(map[string]bool)
		for _, p := range f.Panels {
			where := name + ": panel " + p.Title
			if p.Title == "" || titles[p.Title] {
				t.Errorf("%s: the panel has no title, or another panel has the same title", where)
			}
			titles[p.Title] = true
			if len(p.Description) < 20 {
				t.Errorf("%s: description %q", where, p.Description)
			}
			if p.FieldConfig.Defaults.Unit == "" {
				t.Errorf("%s: no unit", where)
			}
			if p.FieldConfig.Defaults.NoValue == "" {
				t.Errorf("%s has no text for missing data", where)
			}
			for i, column := range p.FieldConfig.Overrides {
				if p.Type == "table" && !slices.ContainsFunc(column.Properties, func(p property) bool { return p.ID == "noValue" }) {
					t.Errorf("%s: an empty cell of column %d has the text for missing data", where, i)
				}
			}
			if p.Datasource != own {
				t.Errorf("%s: data source %v", where, p.Datasource)
			}
			if len(p.Targets) == 0 {
				t.Errorf("%s: no query", where)
			}
			for _, q := range p.Targets {
				if q.Datasource != own {
					t.Errorf("%s: data source %v", where, q.Datasource)
				}
				// The record is scraped once a minute, regardless of Grafana's scrape interval.
				if rateOfRecord.MatchString(q.Expr) && strings.Contains(q.Expr, "$__rate_interval") && q.Interval != "1m" {
					t.Errorf("%s: the minimum step is %q, want 1m", where, q.Interval)
				}
			}
		}
	}
}

// leastWidths contains the minimum width of each column, in pixels, at which Grafana does not cut its longest value:
// the name of a Deployment or StatefulSet, a time, a serial number of 13 characters, "NVIDIA H100 80GB HBM3" and
// "exclusive".
var leastWidths = map[string]float64{
	"Kind": 100, "From": 165, "Until": 165, "Last reported": 165, "Serial number": 125, "Board": 125, "Chassis": 125, "Model": 195, "UUID": 345,
	"Held as": 90, "GPU hours": 90, "Active GPU hours": 150, "Energy": 100, "Idle": 90, "Cost": 80, "Fault": 110,
}

// Grafana uses this minimum for a table column without a configured width.
const autoWidth = 150

// innerWidth is the width of a panel in pixels, without its margins and borders, in a window of 1500 pixels.
func (p panel) innerWidth() float64 { return p.GridPos.W*(1500-24)/24 - 8 - 2 }

// As in Grafana, columns without a configured width share the remaining space.
func (p panel) widths() map[string]float64 {
	all, left, auto := make(map[string]float64), p.innerWidth(), 0.0
	for _, column := range p.FieldConfig.Overrides {
		title := column.Matcher.Options
		for _, property := range column.Properties {
			if width, ok := property.Value.(float64); ok && property.ID == "custom.width" {
				all[title] = width
				left -= width
			}
		}
		if all[title] == 0 {
			auto++
		}
	}
	for _, column := range p.FieldConfig.Overrides {
		if title := column.Matcher.Options; all[title] == 0 {
			all[title] = max(autoWidth, left/auto)
		}
	}
	return all
}

// Each column must be wide enough for its values, and each panel for its table.
func TestWidths(t *testing.T) {
	files, _ := dashboards(t)
	checked := make(map[string]bool)
	for name, f := range files {
		for _, p := range f.Panels {
			if p.Type != "table" {
				continue
			}
			sum := 0.0
			for title, width := range p.widths() {
				sum += width
				checked[title] = true
				if width < leastWidths[title] {
					t.Errorf("%s: panel %s: column %s is %v wide, its longest value needs %v", name, p.Title, title, width, leastWidths[title])
				}
			}
			if sum > p.innerWidth()+0.1 {
				t.Errorf("%s: panel %s is %v wide, its columns need %v", name, p.Title, p.innerWidth(), sum)
			}
		}
	}
	for title := range leastWidths {
		if !checked[title] {
			t.Errorf("no table has a column %s", title)
		}
	}
}

// leastRows contains the number of rows that a table must show without scrolling, by the title of the table.
var leastRows = map[string]float64{"Teams": 8, "Namespaces": 8, "Users of units": 6, "Namespaces, full hours": 6, "Workloads, full hours": 6}

// In Grafana, a row of the grid is 30 pixels high, with a margin of 8 pixels. A table's title is 40 pixels high, and
// its header and each of its rows 36 pixels.
func TestRows(t *testing.T) {
	files, _ := dashboards(t)
	for title, least := range leastRows {
		found := false
		for name, f := range files {
			for _, p := range f.Panels {
				if p.Title != title || p.Type != "table" {
					continue
				}
				found = true
				if visible := (38*p.GridPos.H - 8 - 40 - 36) / 36; visible < least {
					t.Errorf("%s: panel %s shows %.1f rows, it must show %v", name, title, visible, least)
				}
			}
		}
		if !found {
			t.Errorf("no table %s", title)
		}
	}
}

// A table that counts clusters separately must show the cluster of each row.
func TestClusters(t *testing.T) {
	files, _ := dashboards(t)
	for _, name := range []string{"energy.json", "statement.json", "fleet.json"} {
		for _, p := range files[name].Panels {
			_, outermost, _ := strings.Cut(p.Targets[0].Expr, " by (")
			if p.Type == "table" && strings.HasPrefix(outermost, "cluster,") && p.widths()["Cluster"] == 0 {
				t.Errorf("%s: panel %s shows rows of several clusters without a column for the cluster", name, p.Title)
			}
		}
	}
}

func rules(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("rules/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("found %v, %v", names, err)
	}
	texts := make(map[string][]byte)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = text
	}
	return texts
}

// values matches a variable that lists the values of a label.
var values = regexp.MustCompile(`^label_values\((.*), *\w+\)$`)

// All metrics in the queries of panels and variables must exist.
func TestMetrics(t *testing.T) {
	files, _ := dashboards(t)
	_, recorded, err := alerts.Read("rules")
	if err != nil {
		t.Fatal(err)
	}
	known := promql.Known(slices.Concat(foreign, recorded)...)
	check := func(where, expr string, least int) {
		t.Helper()
		names := promql.Metrics(values.ReplaceAllString(expr, "$1"))
		if len(names) < least {
			t.Errorf("%s queries no metric: %s", where, expr)
		}
		for _, name := range names {
			if !known(name) {
				t.Errorf("%s queries %s, which does not exist", where, name)
			}
		}
	}
	for name, f := range files {
		for _, p := range f.Panels {
			for _, q := range p.Targets {
				check(name+": panel "+p.Title, q.Expr, 1)
			}
		}
		for _, v := range f.Templating.List {
			if v.Type == "query" {
				check(name+": variable "+v.Name, v.expression(), 1)
			}
		}
	}
}

var (
	fixedRate = regexp.MustCompile(`\b(?:rate|irate)\([^\[]*\[[^$]`)
	used      = regexp.MustCompile(`\$\{?([a-zA-Z]\w*)`)
)

// recentRate matches rates of the record over four or six minutes. In short time ranges, Grafana's interval is four
// minutes, because the record is scraped every minute. A rate over six minutes exists even if four scrapes fail.
var recentRate = regexp.MustCompile(`rate\(gpuledger_(?:board|allocation|unit_allocation)_\w+\{[^}]*\}\[[46]m\]\)`)

// Every used variable must exist. A rate must use Grafana's interval, which is never too short for the scrape interval,
// or an interval of [recentRate].
func TestVariables(t *testing.T) {
	files, _ := dashboards(t)
	for name, f := range files {
		var names []string
		for _, v := range f.Templating.List {
			for _, m := range used.FindAllStringSubmatch(v.expression(), -1) {
				if !slices.Contains(names, m[1]) {
					t.Errorf("%s: variable %s uses $%s, which is not defined before it", name, v.Name, m[1])
				}
			}
			names = append(names, v.Name)
		}
		for _, p := range f.Panels {
			for _, q := range p.Targets {
				if fixedRate.MatchString(recentRate.ReplaceAllString(q.Expr, "")) {
					t.Errorf("%s: panel %s computes a rate over a fixed interval: %s", name, p.Title, q.Expr)
				}
				if !strings.Contains(q.Expr, `cluster=~"$cluster"`) {
					t.Errorf("%s: panel %s does not select the chosen cluster: %s", name, p.Title, q.Expr)
				}
				for _, m := range used.FindAllStringSubmatch(q.Expr, -1) {
					if !slices.Contains(names, m[1]) && !strings.HasPrefix(m[1], "__") {
						t.Errorf("%s: panel %s uses $%s, but no variable has this name", name, p.Title, m[1])
					}
				}
			}
		}
	}
}

var (
	link      = regexp.MustCompile(`"url": "(/d/[^"]*)"`)
	alertLink = regexp.MustCompile(`(?m)^\s*dashboard: (/d/.*)$`)
)

// A link in a dashboard or an alert must lead to an existing dashboard, and may set only variables of that dashboard.
func TestLinks(t *testing.T) {
	files, texts := dashboards(t)
	byUID := make(map[string]file)
	for _, f := range files {
		byUID[f.UID] = f
	}
	check := func(name, target string) {
		t.Helper()
		uid, query, _ := strings.Cut(strings.TrimPrefix(target, "/d/"), "?")
		to, ok := byUID[uid]
		if !ok {
			t.Errorf("%s: link %s has no target", name, target)
			return
		}
		for pair := range strings.SplitSeq(query, "&") {
			key, _, _ := strings.Cut(pair, "=")
			v, isVariable := strings.CutPrefix(key, "var-")
			if isVariable && !slices.ContainsFunc(to.Templating.List, func(has variable) bool { return has.Name == v }) {
				t.Errorf("%s: link %s: %s has no variable %s", name, target, uid, v)
			}
		}
	}
	for name, text := range texts {
		links := link.FindAllSubmatch(text, -1)
		if n := bytes.Count(text, []byte("/d/")); n != len(links) {
			t.Errorf("%s: %d of %d links were read", name, len(links), n)
		}
		for _, l := range links {
			var target string
			if err := json.Unmarshal([]byte(`"`+string(l[1])+`"`), &target); err != nil {
				t.Fatalf("%s: link %s: %v", name, l[1], err)
			}
			check(name, target)
		}
	}
	for name, text := range rules(t) {
		for _, l := range alertLink.FindAllSubmatch(text, -1) {
			for _, labels := range []map[string]string{{"serial": "S1", "cluster": "c"}, {}} {
				check(name, fire(t, string(l[1]), labels))
			}
		}
	}
}

// fire fills in the template of an alert's link, as Prometheus does.
func fire(t *testing.T, link string, labels map[string]string) string {
	t.Helper()
	parsed, err := template.New("link").Option("missingkey=zero").Parse("{{ $labels := . }}" + link)
	if err != nil {
		t.Fatalf("link %s: %v", link, err)
	}
	var filled strings.Builder
	if err := parsed.Execute(&filled, labels); err != nil {
		t.Fatalf("link %s: %v", link, err)
	}
	return filled.String()
}
