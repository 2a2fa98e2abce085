//go:build e2e

package archive_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/program"
)

type answered struct {
	Rows    []map[string]any
	Notices []string

	status      int
	out, errors string
}

func ask(t *testing.T, args ...string) (a answered) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, binary(), args...)
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		a.status = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	a.out, a.errors = stdout.String(), stderr.String()
	if strings.HasPrefix(a.out, "{") {
		if err := json.Unmarshal(stdout.Bytes(), &a); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, a.out)
		}
	}
	return a
}

// life is a history of three days, with five boards on the nodes of a cluster. Board A moves from node 1 to node 2. At
// the same time, board B moves to the slot that A left. Board C is lost, and board E replaces it a day later. A Slurm
// job shares the boards D and E. Node 2 is not scraped for four hours, and reboots once. Board D was added on the
// second day. Every pod uses one board, alone or shared.
type life struct {
	*foldtest.Store
	counters map[string]float64 // counters by series, in joules, seconds or errors
	created  map[string]time.Time
	twice    bool // set if two jobs scrape each exporter
}

const lifeHours = 72

var lifeBoards = map[string][2]string{
	"A": {"1653924023100", "GPU-aaaa0000-0000-0000-0000-00000000000a"}, "B": {"1653924023101", "GPU-bbbb0000-0000-0000-0000-00000000000b"},
	"C": {"1653924023102", "GPU-cccc0000-0000-0000-0000-00000000000c"}, "D": {"1653924023103", "GPU-dddd0000-0000-0000-0000-00000000000d"},
	"E": {"1653924023104", "GPU-eeee0000-0000-0000-0000-00000000000e"},
}

// placeOf returns empty strings if the board is in no node in this minute.
func placeOf(board string, minute int) (node, address string) {
	const hour = 60
	switch board {
	case "A":
		if minute < 20*hour+30 {
			return "n1", "00000000:1B:00.0"
		}
		return "n2", "00000000:1B:00.0"
	case "B":
		if minute < 20*hour+30 {
			return "n2", "00000000:1B:00.0"
		}
		return "n1", "00000000:1B:00.0"
	case "C":
		if minute < 30*hour+10 {
			return "n1", "00000000:43:00.0"
		}
	case "D":
		if minute >= 26*hour {
			return "n2", "00000000:43:00.0"
		}
	case "E":
		if minute >= 54*hour {
			return "n1", "00000000:43:00.0"
		}
	}
	return "", ""
}

// newLife simulates the history. If twice is set, a second job also scrapes the exporters, but misses every
// tenth minute.
func newLife(twice bool) *life {
	l := &life{foldtest.NewStore(), make(map[string]float64), make(map[string]time.Time), twice}
	for minute := range lifeHours * 60 {
		for i, node := range []string{"n1", "n2"} {
			at := began.Add(time.Duration(minute)*time.Minute + time.Duration(10*i+5)*time.Second)
			// Node 2 is not scraped, but its counters continue.
			silent := node == "n2" && minute >= 40*60+5 && minute < 44*60+5
			up := 1.0
			if silent {
				up = 0
			}
			l.Add(at, up, "up", "cluster", "east", "job", "gpuledger-record", "node", node)
			if node == "n2" && minute == 60*60+30 { // the node reboots
				maps.DeleteFunc(l.counters, func(series string, _ float64) bool { return strings.HasPrefix(series, "n2 ") })
				maps.DeleteFunc(l.created, func(account string, _ time.Time) bool { return strings.HasPrefix(account, "n2 ") })
			}
			for _, board := range []string{"A", "B", "C", "D", "E"} {
				if at, address := placeOf(board, minute); at == node {
					l.scrape(board, node, address, minute, began.Add(time.Duration(minute)*time.Minute+time.Duration(10*i+5)*time.Second), silent)
				}
			}
		}
		l.owners(minute)
	}
	return l
}

func (l *life) scrape(board, node, address string, minute int, at time.Time, silent bool) {
	serial, uuid := lifeBoards[board][0], lifeBoards[board][1]
	common := []string{"cluster", "east", "node", node, "UUID", uuid, "serial", serial}
	key := node + " " + board
	if l.created[key].IsZero() {
		l.created[key] = at.Add(-30 * time.Second)
	}
	add := func(value float64, metric string, labels ...string) {
		if silent {
			return
		}
		l.Add(at, value, metric, slices.Concat(common, labels)...)
		if l.twice && minute%10 != 9 {
			later := at
			if metric != "gpuledger_placement_info" { // both jobs must agree on the time of this metric's last scrape, because a command reads it
				later = at.Add(3 * time.Second)
			}
			l.Add(later, value, metric, slices.Concat(common, labels, []string{"job", "gpuledger-second"})...)
		}
	}
	count := func(metric string, more float64, labels ...string) {
		series := key + " " + metric + fmt.Sprint(labels)
		l.counters[series] += more
		add(l.counters[series], metric, labels...)
	}
	model := "NVIDIA H100 80GB HBM3"
	if node == "n1" && minute >= 35*60+20 { // a driver upgrade renames the model
		model = "NVIDIA H100"
	}
	watts := 100 + float64(board[0]-'A')*10 + float64(minute%7)
	energy := watts * 60
	count("gpuledger_board_energy_joules_total", energy)
	add(1, "gpuledger_placement_info", "chassis_serial", "C-"+node, "chassis_slot", node[1:],
		"pci_bus_id", address, "model", model, "system_uuid", "machine-of-"+node)
	add(float64(l.created[key].Unix()), "gpuledger_board_created_timestamp_seconds")
	if board == "C" && minute >= 30*60 {
		count("gpuledger_board_xid_errors_total", map[bool]float64{true: 1}[minute == 30*60], "xid", "79")
	}
	charge := func(family, name string, share float64, labels ...string) {
		count(family+"energy_joules_total", energy*share, labels...)
		count(family+"exclusive_energy_joules_total", map[bool]float64{true: energy}[share == 1], labels...)
		count(family+"idle_energy_joules_total", energy*share/4, labels...)
		count(family+"seconds_total", 60, labels...)
		count(family+"gpu_seconds_total", 60*share, labels...)
		count(family+"active_seconds_total", 30, labels...)
		owner := key + " " + name
		if l.created[owner].IsZero() {
			l.created[owner] = at.Add(-20 * time.Second)
		}
		add(float64(l.created[owner].Unix()), family+"created_timestamp_seconds", labels...)
		energy -= energy * share
	}
	for _, p := range lifePods(board, minute) {
		charge("gpuledger_allocation_", p.name, p.share, "namespace", p.namespace, "pod", p.name, "pod_uid", "uid-"+p.name)
	}
	if runsJob(board, minute) {
		if !runsJob(board, minute-1) { // the exporter has removed the counters of the job's last run
			maps.DeleteFunc(l.counters, func(series string, _ float64) bool { return strings.HasPrefix(series, key+" gpuledger_unit_") })
			delete(l.created, key+" job")
		}
		charge("gpuledger_unit_allocation_", "job", 0.75, "manager", "slurm", "unit", "4711")
	}
	count("gpuledger_board_unattributed_energy_joules_total", energy, "reason", "idle")
}

type lifePod struct {
	namespace, name, workload, team string
	share                           float64
}

func lifePods(board string, minute int) (pods []lifePod) {
	hour := minute / 60
	if board == "A" {
		pods = append(pods, lifePod{"search", "chat-0", "chat", "search", 0.5})
	}
	if board == "C" && hour >= 10 {
		pods = append(pods, lifePod{"vision", "train-0", "train", "vision", 1})
	}
	if board == "B" && hour >= 30 && hour < 50 {
		pods = append(pods, lifePod{"vision", "train-1", "train", "vision", 1})
	}
	return pods
}

// runsJob reports whether Slurm job 4711 uses a board. The job is requeued twice, so it runs three times.
func runsJob(board string, minute int) bool {
	hour := minute / 60
	return (board == "D" || board == "E") && (hour >= 28 && hour < 31 || hour >= 55 && hour < 58 || hour >= 63 && hour < 68)
}

// owners adds the series that the reconciler and kube-state-metrics serve.
func (l *life) owners(minute int) {
	at := began.Add(time.Duration(minute) * time.Minute)
	l.Add(at, 1, "kube_namespace_labels", "cluster", "east", "namespace", "search", "label_team", "search")
	if runsJob("D", minute) {
		for _, node := range []string{"n1", "n2"} {
			user := map[bool]string{true: "alice"}[minute >= 28*60+50] // the user becomes known late
			l.Add(at, 1, "gpuledger_unit_info", "cluster", "east", "node", node, "manager", "slurm", "unit", "4711", "uid", "1000", "user", user, "account", "physics")
		}
	}
	for board := range lifeBoards {
		for _, p := range lifePods(board, minute) {
			l.Add(at, 1, "gpuledger_pod_info", "cluster", "east", "namespace", p.namespace, "pod", p.name, "pod_uid", "uid-"+p.name,
				"workload_kind", "Job", "workload_name", p.workload, "workload_uid", "uid-"+p.workload, "node", "n1")
			if p.namespace == "vision" {
				l.Add(at, 1, "gpuledger_pod_labels", "cluster", "east", "namespace", p.namespace, "pod", p.name, "pod_uid", "uid-"+p.name, "label_team", p.team)
			}
		}
	}
}

// TestAsk compares the answers from a Prometheus with the answers from the archive of the same samples.
func TestAsk(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	t.Parallel()
	server := serve(t, program.OpenFor(t), "store", newLife(false).Store, "global: {external_labels: {replica: a}}")
	end := began.Add(lifeHours * time.Hour).Format(time.RFC3339)
	sources := map[string][]string{"Prometheus": {"--store.url=" + server.URL()}}
	for _, format := range []string{"parquet", "csv"} {
		folder := t.TempDir()
		succeed(t, "once", "--folder="+folder, "--folder.format="+format, "--store.url="+server.URL(),
			"--from="+began.Format(time.RFC3339), "--until="+end)
		sources[format] = []string{"--books=" + folder}
	}
	for _, kind := range kinds {
		url, db := kind.start(t).create(t, "gpuledger")
		succeed(t, "once", kind.flag+"="+url, "--store.url="+server.URL(), "--from="+began.Format(time.RFC3339), "--until="+end)
		sources[kind.name] = []string{"--books=" + url}
		checkViews(t, db, url, end)
	}
	file := filepath.Join(t.TempDir(), "archive.db")
	succeed(t, "once", "--sqlite="+file, "--store.url="+server.URL(), "--from="+began.Format(time.RFC3339), "--until="+end)
	sources["SQLite"] = []string{"--books=" + file}
	checkViews(t, openFile(t, file), file, end)
	sources["Prometheus with duplicate targets"] = []string{"--store.url=" + serve(t, server.Group, "twice", newLife(true).Store, "").URL()}
	address := program.AddressFor(t)
	victoria(t, server.Group, "victoria-metrics", address, "-storageDataPath="+server.Group.Path("victoria-data"), "-retentionPeriod=100y")
	lived := newLife(false).Store
	insert(t, "http://"+address, lived, began.Add(-time.Hour), began.Add(lifeHours*time.Hour))
	check(t, get(t.Context(), "http://"+address+"/internal/force_flush", nil))
	n := thanos{t, server.Group}
	_, sidecar := n.sidecar(server)
	sources["Thanos"] = []string{"--store.type=thanos", "--store.url=" + n.query([]string{sidecar}, "--query.replica-label=replica")}
	sources["VictoriaMetrics"] = []string{"--store.type=victoriametrics", "--store.url=http://" + address}
	for _, question := range lifeQuestions {
		var first answered
		var from string
		for name, source := range sources {
			a := ask(t, append(append(until(question, end), "-o", "json"), source...)...)
			if failing := strings.HasPrefix(question, "verify --from=2026-02"); (a.status != 0) != failing {
				t.Errorf("%s, %s: exit status %d: %s", question, name, a.status, a.errors)
				continue
			}
			if strings.HasPrefix(question, "where") && strings.Contains(question, "--at=") {
				for _, row := range a.Rows { // the archive does not contain the time of a scrape
					delete(row, "last_seen")
				}
			}
			if from == "" {
				first, from = a, name
				t.Logf("%s:\n%s", question, ask(t, append(until(question, end), source...)...).out)
			} else if diff := cmp.Diff(first.Rows, a.Rows); diff != "" {
				t.Errorf("%s (-%s +%s):\n%s", question, from, name, diff)
			}
			if len(a.Rows) == 0 {
				t.Errorf("%s, %s: no rows", question, name)
			}
		}
	}
}

func checkViews(t *testing.T, db query, url, end string) {
	t.Helper()
	var stays []string
	for _, node := range []string{"n1", "n2"} {
		for _, row := range ask(t, "history", node, "--books="+url, "--to="+end, "-o", "json").Rows {
			line := []string{row["serial"].(string), row["node"].(string), row["start_event"].(string)}
			for _, column := range []string{"first_seen", "last_seen", "missing_since"} {
				text, ok := row[column].(string)
				if !ok {
					text = "-"
				} else {
					text = strings.Replace(text[:len("2006-01-02T15:04")], "T", " ", 1)
				}
				line = append(line, text)
			}
			stays = append(stays, strings.Join(append(line, fmt.Sprintf("%.0f", row["energy_mj"])), " | "))
		}
	}
	slices.Sort(stays)
	want := db.rows(t, "select serial, node, start_event, first_seen, last_seen, missing_since, energy_mj from placements")
	slices.Sort(want)
	if diff := cmp.Diff(want, stays); diff != "" || len(want) < 8 {
		t.Errorf("stays (-view placements +history):\n%s", diff)
	}
	var lines []string
	for _, row := range ask(t, "statement", "--by=team,reason", "--books="+url, "--from="+began.Format(time.RFC3339), "--to="+end, "-o", "json").Rows {
		if row["line"] == "group" {
			team, _ := row["team"].(string)
			lines = append(lines, fmt.Sprintf("%s | %s | %.0f | %.0f | %.0f", team, strings.TrimSuffix(row["reason"].(string), "(pods and units)"), row["energy_mj"], row["idle_mj"], row["gpu_ms"]))
		}
	}
	slices.Sort(lines)
	want = db.rows(t, "select team, reason, sum(energy_mj), sum(idle_mj), sum(gpu_ms) from statements group by team, reason")
	slices.Sort(want)
	if diff := cmp.Diff(want, lines); diff != "" || len(want) < 3 {
		t.Errorf("statement (-view statements +program):\n%s", diff)
	}
	var energy, held float64
	for _, row := range ask(t, "ran", "--unit=slurm/4711", "--books="+url, "--to="+end, "-o", "json").Rows {
		energy += row["energy_mj"].(float64)
		held += row["gpu_ms"].(float64)
	}
	_, after, _ := strings.Cut(text(t, "../../../docs/slurm.md"), "```sql\n")
	statement, _, _ := strings.Cut(after, ";\n```")
	job := fmt.Sprintf("4711 | alice | physics | %.2f | %.1f", energy/kilowattHour, math.Round(held/360000)/10)
	if diff := cmp.Diff([]string{job}, db.rows(t, statement)); diff != "" {
		t.Errorf("docs/slurm.md (-program +view allocations):\n%s", diff)
	}
}

func until(question, end string) []string {
	words := strings.Fields(question)
	if strings.Contains(question, "--to=") || strings.Contains(question, "--at=") || strings.Contains(question, "--month=") {
		return words
	}
	return append(words, "--to="+end)
}

var lifeQuestions = []string{
	"where 1653924023100",
	"where 1653924023102",
	"where GPU-eeee0000-0000-0000-0000-00000000000e",
	"where n1",
	"where n2 --at=2026-03-02T02:30",
	"where C-n2",
	"history 1653924023100",
	"history 1653924023102",
	"history n2",
	"ran 1653924023100",
	"ran 1653924023102 --at=2026-03-02T06:05",
	"ran --pod=vision/train-1",
	"ran --workload=vision/Job/train",
	"ran --unit=slurm/4711",
	"where 1653924023104 --at=2026-03-03T09:30",
	"statement --from=2026-03-01",
	"statement --from=2026-03-01 --by=namespace",
	"statement --from=2026-03-01 --by=workload",
	"statement --from=2026-03-01 --by=serial",
	"statement --from=2026-03-01 --by=node,model",
	"statement --from=2026-03-01 --by=unit",
	"statement --from=2026-03-01 --by=user",
	"statement --month=2026-03 --by=reason",
	"idle --from=2026-03-01",
	"capacity --from=2026-03-01",
	"capacity --age --from=2026-03-01",
	"capacity --failures --from=2026-03-01",
	"moves --from=2026-03-01T12",
	"missing",
	"missing --to=2026-03-02T19",
	"verify --from=2026-03-01",
	"verify --from=2026-02-28",
}
