//go:build e2e

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/fleet"
	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// TestDemo starts the demo. When Prometheus has scraped all nodes twice, every question in docs/ask.md must have an
// answer. When the third node has lost its last GPU, every panel of every dashboard must have data.
func TestDemo(t *testing.T) {
	rules, err := filepath.Abs("../../dashboards/rules/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{fleet: fleet.OpenFor(t), listen: program.AddressFor(t), rules: rules, scrape: 5 * time.Second}
	d.programs = d.fleet.Programs()
	if err := d.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.wait(t, func() error {
		found, err := prometheus.Query(t.Context(), "http://"+d.listen, `count by (node) (rate(gpuledger_gpu_energy_joules_total[1m]))`, time.Now())
		if err == nil && len(found) < len(d.nodes) {
			err = fmt.Errorf("%d of %d nodes are scraped", len(found), len(d.nodes))
		}
		return err
	})
	t.Run("seam", func(t *testing.T) {
		d.seam(t)
	})
	t.Run("pages", func(t *testing.T) {
		d.readPages(t)
	})
	t.Run("questions", func(t *testing.T) {
		d.questions(t)
	})
	d.wait(t, func() error {
		found, err := prometheus.Query(t.Context(), "http://"+d.listen, `gpuledger_gpu_present{UUID="`+d.loses(t)+`"} == 0`, time.Now())
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("%d series of the lost GPU, it must be 1", len(found))
		}
		return err
	})
	t.Run("panels", func(t *testing.T) {
		d.panels(t)
	})
}

// loses returns the UUID of the only GPU that is lost while the demo runs, two minutes after its node starts.
func (d *demo) loses(t *testing.T) (uuid string) {
	t.Helper()
	for _, n := range d.nodes {
		sc, err := n.Simulated()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range sc.Events {
			if e.Do != simnode.FallOff || uuid != "" {
				t.Fatalf("scenario %s has the event %+v", n.Scenario, e)
			}
			uuid = sc.GPUs[e.GPU].UUID
		}
	}
	return uuid
}

var (
	// span matches a command between backticks on the page. example matches a command in an example, and the next line.
	span    = regexp.MustCompile("`((?:where|history|ran|statement|idle|moves|missing|verify|report|capacity)(?: [^`]*)?)`")
	example = regexp.MustCompile(`(?m)^\$ bin/gpuledger-archive (.*)\n(.*)$`)
	// settling matches notices that are correct in the first minutes of an hour. In these minutes, the samples, the
	// archive or the rules do not contain the previous hour yet. On the first day of a month, this hour may be the last
	// hour in the archive.
	settling = regexp.MustCompile(`(?m)^! incomplete: (1 of \d+ hours|the period until \S+ 00:00 has not ended,) .*$`)
	// option matches an option of the command statement. The page lists these options without the command.
	option = regexp.MustCompile("`(--format=[a-z-]+)`")
)

// documented returns the commands on the page docs/ask.md. failing contains the commands that must fail.
func documented(t *testing.T) (commands []string, failing map[string]bool) {
	t.Helper()
	page, err := os.ReadFile("../../docs/ask.md")
	if err != nil {
		t.Fatal(err)
	}
	failing = make(map[string]bool)
	for _, m := range span.FindAllStringSubmatch(string(page), -1) {
		switch m[1] {
		case "where", "history", "ran", "report": // the name of a command in the text, not a question
		default:
			commands = append(commands, m[1])
		}
	}
	for _, m := range option.FindAllStringSubmatch(string(page), -1) {
		commands = append(commands, "statement "+m[1])
	}
	for _, m := range example.FindAllStringSubmatch(string(page), -1) {
		commands = append(commands, m[1])
		failing[m[1]] = strings.HasPrefix(m[2], "gpuledger-archive ")
	}
	slices.Sort(commands)
	return slices.Compact(commands), failing
}

// used returns the processor time of the server, and the number of samples that its queries have read.
func (d *demo) used(t *testing.T) (processor time.Duration, samples float64) {
	t.Helper()
	page, err := exposition.Scrape(t.Context(), "http://"+d.listen+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(page.Sum("process_cpu_seconds_total", nil) * float64(time.Second)), page.Sum("prometheus_engine_query_samples_total", nil)
}

// questions runs all commands on the page, with names and times from the demo. It limits the samples that the server
// reads for each day of history. It does not limit the processor time, because this time depends on the machine and on
// the day of the month.
func (d *demo) questions(t *testing.T) {
	commands, failing := documented(t)
	if len(commands) < 14 {
		t.Fatalf("docs/ask.md has only the commands %q", commands)
	}
	board, err := d.nodes[2].Simulated()
	if err != nil {
		t.Fatal(err)
	}
	serial, now := board.GPUs[2].Serial, time.Now().UTC()
	month := time.Date(now.Year(), now.Month()-1, 1, 0, 0, 0, 0, time.UTC)
	names := strings.NewReplacer(
		"SERIAL", serial, "namespace/pod", "serving/infer-0", "kind/name", "Deployment/infer", "2026-10", month.Format("2006-01"),
		"statement --compare", "statement --compare --from="+now.AddDate(0, 0, -7).Format(time.DateOnly), // the data begins with the previous month
	)
	bin, err := filepath.Abs(filepath.Join(d.programs.Bin, "gpuledger-archive"))
	if err != nil {
		t.Fatal(err)
	}
	const most = 1.6e6 // samples for each day; measured: 1.2e6
	var commandTime time.Duration
	processorBefore, samplesBefore := d.used(t)
	defer func() {
		processor, samples := d.used(t)
		days := now.Sub(month).Hours() / 24
		perDay := (samples - samplesBefore) / days
		t.Logf("%d questions, %.0f days of history: %.0f samples for each day, %.1f s of processor time in Prometheus and %.1f s in the commands",
			len(commands), days, perDay, (processor - processorBefore).Seconds(), commandTime.Seconds())
		if perDay > most {
			t.Errorf("the questions read %.0f samples for each day of history, want at most %.0f", perDay, float64(most))
		}
	}()
	for _, command := range commands {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, bin, strings.Fields(names.Replace(command))...)
		cmd.Dir, cmd.Env = d.fleet.Path(), append(os.Environ(), "GPULEDGER_CONFIG="+d.config)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		began := time.Now()
		answer, err := cmd.Output()
		t.Logf("%s: %.1f s", command, time.Since(began).Seconds())
		commandTime += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if failing[command] {
			if err == nil {
				t.Errorf("%s: no error, although the page shows an error:\n%s", command, answer)
			}
			continue
		}
		text := string(answer) + stderr.String()
		switch {
		case err != nil:
			t.Errorf("%s: %v\n%s", cmd, err, text)
		case strings.Count(strings.TrimSpace(string(answer)), "\n") < 1:
			t.Errorf("%s: the answer has no row:\n%s", cmd, text)
		case strings.Contains(settling.ReplaceAllString(text, ""), "incomplete") || strings.Contains(text, "no full hour"):
			t.Errorf("%s: the answer is not complete:\n%s", cmd, text)
		}
	}
}

func (d *demo) readPages(t *testing.T) {
	board, err := d.nodes[2].Simulated()
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"statement", "board/" + board.GPUs[2].Serial} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.pages+"/"+page, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || strings.Count(string(text), "<tr>") < 4 {
			t.Errorf("%s: status %d, error %v\n%s", page, response.StatusCode, err, text)
		}
	}
}

// seam checks the transition from the simulated past to the running nodes. In the minutes around the transition, no
// board may move, arrive or be lost. Each board must be in one slot, and no series may be missing. The GPU that is lost
// in its scenario may be lost already.
func (d *demo) seam(t *testing.T) {
	loses := d.loses(t)
	bin := filepath.Join(d.programs.Bin, "gpuledger-archive")
	out, err := exec.CommandContext(t.Context(), bin, "moves", "--since=1d", "--store.url=http://"+d.listen, "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Rows []struct{ UUID string } }
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Errorf("moves at the seam: %v\n%s", err, out)
	}
	for _, row := range answer.Rows {
		if row.UUID != loses {
			t.Errorf("moves at the seam:\n%s", out)
		}
	}
	for _, query := range []string{
		`count by (UUID) (group by (cluster, node, serial, chassis_slot, pci_bus_id, UUID) (last_over_time(gpuledger_placement_info[1d]))) > 1`,
		`group by (UUID) (last_over_time(gpuledger_placement_info{UUID!="` + loses + `"}[1h])) unless on (UUID) gpuledger_placement_info`,
		`gpuledger_placement_info unless on (UUID, node, serial, pci_bus_id) last_over_time(gpuledger_placement_info[1h] offset 10m)`,
		`ALERTS{alertname=~".*(Moved|Replaced|Missing).*", UUID!="` + loses + `"}`,
		// The hourly sums in the dashboards must exist in each minute.
		`count_over_time((group(last_over_time(gpuledger:namespace_energy_joules:increase1h[59m])))[4h:1m]) < 240`,
	} {
		found, err := prometheus.Query(t.Context(), "http://"+d.listen, query, time.Now())
		if err != nil || len(found) > 0 {
			t.Errorf("%s: %v %v", query, found, err)
		}
	}
}

// silent contains the panels that must be empty in the demo, with the reason.
var silent = map[string]string{
	"health/Nodes without exporter":             "all exporters run",
	"health/Nodes that should have an exporter": "the demo has no reconciler",
	"health/States of the inventories":          "the demo has no reconciler",
	"health/Writes of node labels per hour":     "the demo has no reconciler",
	"health/Failed stages":                      "all stages work",
	"health/Hours refused by the archive":       "no hour is refused",
	"incident/GPUs beside them":                 "all GPUs are selected",
	"incident/Spare rows and recovery":          "no board has memory errors",
	"chassis/Spare rows and recovery":           "no board has memory errors",
	"gpu-life/Spare rows and recovery":          "no board has memory errors",
}

// chance contains the panels that may be empty at the end of the time range. They must have a result at some time in
// the range.
var chance = map[string]bool{
	"energy/Pods that hold idle GPUs":  true,
	"energy/Units that hold idle GPUs": true,
}

type dashboard struct {
	Time   struct{ From, To string }
	Panels []struct {
		Title   string
		Targets []struct{ Expr, Interval string }
	}
}

var variable = regexp.MustCompile(`\$([a-zA-Z_]\w*)`)

// patience is the maximum time for a panel or a question on a busy machine. The longest question takes 15 s on an idle
// machine.
const patience = 4 * time.Minute

func (d *demo) wait(t *testing.T, ask func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := d.booted[0].Wait(ctx, ask); err != nil {
		t.Error(err)
	}
}

// panels evaluates the queries of all panels at the end of the dashboard's default time range. If the range ends now,
// each attempt uses a later end, because a rule has no results before its first evaluation.
func (d *demo) panels(t *testing.T) {
	files, err := filepath.Glob("../../dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards %v: %v", files, err)
	}
	seen := make(map[string]bool)
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		var board dashboard
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &board)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, p := range board.Panels {
			title := name + "/" + p.Title
			seen[title] = true
			results := func() error {
				from, until := moment(board.Time.From, false), moment(board.Time.To, true)
				length := until.Sub(from).Round(time.Second).String()
				n, reason := 0, silent[title]
				for _, q := range p.Targets {
					expr := variable.ReplaceAllStringFunc(q.Expr, func(v string) string { return value(name, v[1:], length, q.Interval) })
					if chance[title] {
						expr = fmt.Sprintf("count_over_time((%s)[%s:5m])", expr, length)
					}
					found, err := prometheus.Query(t.Context(), "http://"+d.listen, expr, until)
					if err != nil {
						return fmt.Errorf("%s: %w", expr, err)
					}
					n += len(found)
				}
				if (reason != "") != (n == 0) {
					return fmt.Errorf("%s has %d results (a reason to be empty: %q)", title, n, reason)
				}
				return nil
			}
			d.wait(t, results)
		}
	}
	for title := range silent {
		if !seen[title] {
			t.Errorf("panel %s does not exist", title)
		}
	}
	for title := range chance {
		if !seen[title] {
			t.Errorf("panel %s does not exist", title)
		}
	}
}

// moment returns the start or the end of a Grafana time such as now-1M/M. It supports only the forms in the dashboards.
func moment(text string, end bool) time.Time {
	now := time.Now().UTC()
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	switch text {
	case "now-1M/M":
		if end {
			return month
		}
		return month.AddDate(0, -1, 0)
	case "now-24h/h":
		return now.Truncate(time.Hour).Add(-24 * time.Hour)
	case "now-1h/h": // end of the hour
		return now.Truncate(time.Hour)
	case "now":
		return now
	}
	hours, isDays := strings.CutSuffix(strings.TrimPrefix(text, "now-"), "d")
	length, err := time.ParseDuration(hours + strings.Repeat("h", map[bool]int{true: 1}[isDays]))
	if err != nil {
		panic("unknown time " + text)
	}
	if isDays {
		length *= 24
	}
	return now.Add(-length)
}

// value returns the value of a Grafana variable. Variables without a value match everything.
func value(file, name, length, interval string) string {
	switch {
	case name == "__rate_interval" && interval == "1m":
		return "4m"
	case name == "__rate_interval":
		return "1m"
	case name == "__range":
		return length
	case name == "__range_s":
		d, _ := time.ParseDuration(length)
		return strconv.Itoa(int(d.Seconds()))
	case name == "__interval":
		return "1h"
	case name == "price" || name == "pue":
		return "1.5"
	case name == "chassis_serial":
		return "1820925190655"
	case name == "serial" && file == "gpu-life":
		return "1653924024700" // the board that moved
	}
	return ".*"
}
