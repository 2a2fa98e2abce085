//go:build e2e

package archive_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

var update = flag.Bool("update", false, "write the answers into docs/archive.md")

const page = "../../../docs/archive.md"

const kilowattHour = 3_600_000_000

// november is the start of the example. The example covers two days and starts with four boards.
var november = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// example returns the n-th hour of the example.
//   - Board 102 has XID 79 in hour 15 and is lost. In hour 33, board 105 replaces board 102. From hour 44 on,
//     board 102 is in another machine.
//   - Node gpu-2 is down in hours 30 and 31.
//   - The JobSet train of team vision uses a GPU of each node from 8:03 to 17:42. The Deployment chat of team search
//     always holds a GPU; its rows are from an earlier version of the program, so they do not contain the times of use.
func example(n int) *table.Hour {
	h := &table.Hour{Cluster: "example", Start: november.Add(time.Duration(n) * time.Hour)}
	place := func(node, slot, address, board string) {
		h.GPUs = append(h.GPUs, table.GPU{
			Node: node, UUID: "GPU-" + board, Serial: "1653924023" + board, ChassisSlot: slot, PCIBusID: address, Model: "NVIDIA H100 80GB HBM3",
			SystemUUID: "machine-of-" + node, First: h.Start.Add(time.Minute), Last: h.Start.Add(59 * time.Minute), Scrapes: 60,
		})
	}
	place("gpu-1", "1", "00000000:1B:00.0", "100")
	place("gpu-1", "1", "00000000:43:00.0", "101")
	if n < 16 {
		place("gpu-2", "2", "00000000:1B:00.0", "102")
	}
	if n < 30 || n > 31 {
		place("gpu-2", "2", "00000000:43:00.0", "103")
	}
	if n >= 33 {
		place("gpu-2", "2", "00000000:1B:00.0", "105")
	}
	if n >= 44 {
		place("gpu-3", "3", "00000000:1B:00.0", "102")
	}
	if n == 15 {
		h.GPUs[2].XIDs, h.GPUs[2].Losses = map[string]int64{"79": 1}, 1
	}
	for i := range h.GPUs {
		h.GPUs[i].Energy = charge(h, &h.GPUs[i], n)
	}
	own(h, n)
	return sinktest.Complete(h)
}

func charge(h *table.Hour, g *table.GPU, n int) int64 {
	const second = 1000
	c := table.Charge{Node: g.Node, UUID: g.UUID, Serial: g.Serial}
	switch {
	case g.UUID == "GPU-101":
		c.Namespace, c.Pod, c.PodUID = "search", "chat-7d4b9c", "pod-chat"
		c.WorkloadKind, c.WorkloadName, c.WorkloadUID, c.Team = "Deployment", "chat", "deployment-chat", "search"
		c.Energy, c.Idle, c.Held, c.GPUTime, c.Active = kilowattHour/5, kilowattHour/10, 3600*second, 3600*second, 900*second
	case training(n) && (g.UUID == "GPU-100" || g.UUID == "GPU-102"):
		c.Namespace, c.Pod, c.PodUID = "vision", "train-"+g.Node, "pod-"+g.Node
		c.WorkloadKind, c.WorkloadName, c.WorkloadUID, c.Team = "JobSet", "train", "jobset-train", "vision"
		c.Energy, c.Exclusive, c.Held, c.GPUTime, c.Active = kilowattHour*3/5, kilowattHour*3/5, 3600*second, 3600*second, 3500*second
		c.Began, c.Ended = h.Start, h.Start.Add(59*time.Minute)
		switch n {
		case 8:
			c.Began = h.Start.Add(3 * time.Minute)
		case 17:
			c.Ended = h.Start.Add(42 * time.Minute)
		}
	default:
		c.Reason, c.Energy = "idle", kilowattHour*7/100
	}
	h.Charges = append(h.Charges, c)
	return c.Energy
}

func training(n int) bool { return 8 <= n && n < 18 }

func own(h *table.Hour, n int) {
	gpu := map[string]int64{"nvidia.com/gpu": 1}
	h.Pods = []table.Pod{{
		Namespace: "search", Pod: "chat-7d4b9c", PodUID: "pod-chat", Node: "gpu-1", OwnerKind: "ReplicaSet", OwnerName: "chat-7d", WorkloadKind: "Deployment",
		WorkloadName: "chat", WorkloadUID: "deployment-chat", Team: "search", Requests: gpu,
	}}
	h.Workloads = []table.Workload{
		{Kind: "Deployment", Namespace: "search", Name: "chat", UID: "deployment-chat"},
		{Kind: "ReplicaSet", Namespace: "search", Name: "chat-7d", UID: "replicaset-chat", ParentUID: "deployment-chat"},
	}
	if !training(n) {
		return
	}
	for _, node := range []string{"gpu-1", "gpu-2"} {
		h.Pods = append(h.Pods, table.Pod{
			Namespace: "vision", Pod: "train-" + node, PodUID: "pod-" + node, Node: node, OwnerKind: "Job", OwnerName: "train-0", WorkloadKind: "JobSet",
			WorkloadName: "train", WorkloadUID: "jobset-train", Team: "vision", Requests: gpu,
		})
	}
	h.Workloads = append(h.Workloads,
		table.Workload{Kind: "Job", Namespace: "vision", Name: "train-0", UID: "job-train", ParentUID: "jobset-train"},
		table.Workload{Kind: "JobSet", Namespace: "vision", Name: "train", UID: "jobset-train"})
}

// fileExample omits one hour of the example. It also writes a correction of hour 12: the pod on gpu-1 used a tenth of a
// kilowatt-hour less than in the first version.
func fileExample(t *testing.T, sink sinktest.Sink) {
	t.Helper()
	for n := range 48 {
		if n != 27 {
			check(t, sink.Replace(t.Context(), example(n)))
		}
	}
	h := example(12)
	before, err := sink.Charges(t.Context(), h.Cluster, h.Start)
	check(t, err)
	h.Charges[0].Energy -= kilowattHour / 10
	h.GPUs[0].Energy -= kilowattHour / 10
	h.Revision, h.State, h.Digest = 2, table.Corrected, table.Digest(h)
	h.Corrections = table.Difference(before, h.Charges)
	check(t, sink.Correct(t.Context(), h))
}

func eventsOfExample() []event.Event {
	of := func(minutes int, node, kind, id, details string) event.Event {
		return event.Event{
			Kind: kind, ID: "pod-gpu-2/" + id, At: november.Add(time.Duration(minutes) * time.Minute), Node: node,
			Namespace: "vision", Pod: "train-gpu-2", PodUID: "pod-gpu-2", OwnerKind: "Job", OwnerName: "train-0", Details: json.RawMessage(details),
		}
	}
	return []event.Event{
		of(8*60, "", "phase", "phase/Pending", `{"from":"","reason":"","to":"Pending"}`),
		of(8*60+3, "gpu-2", "phase", "phase/Running", `{"from":"Pending","reason":"","to":"Running"}`),
		of(15*60+59, "gpu-2", "failure", "failure/main/139/2026-11-01T15:59:00Z", `{"container":"main","exit_code":139,"reason":"Error","restarts":0,"signal":0}`),
		of(16*60, "gpu-2", "deleted", "deleted", ""),
		other(of(8*60+1, "gpu-1", "phase", "phase/Pending", `{"from":"","reason":"","to":"Pending"}`)),
		other(of(8*60+4, "gpu-1", "phase", "phase/Running", `{"from":"Pending","reason":"","to":"Running"}`)),
		other(of(8*60+4, "gpu-1", "condition", "condition/Ready/True", `{"condition":"Ready","from":"False","reason":"","to":"True"}`)),
		other(of(9*60, "gpu-1", "failure", "failure/main/1", `{"container":"main","exit_code":1,"reason":"Error","restarts":1,"signal":0}`)),
		other(of(9*60, "gpu-1", "condition", "condition/Ready/False", `{"condition":"Ready","from":"True","reason":"","to":"False"}`)),
		other(of(9*60+1, "gpu-1", "condition", "condition/Ready/True/2", `{"condition":"Ready","from":"False","reason":"","to":"True"}`)),
		{
			Kind: event.Snapshot, ID: "pod-gpu-1/snapshot/7", At: november.Add(9 * time.Hour), Namespace: "vision", Pod: "train-gpu-1", PodUID: "pod-gpu-1",
			ResourceVersion: "7", Object: json.RawMessage(`{"metadata":{"name": "train-gpu-1"},"spec":{"nodeName":"gpu-1"},"status":{"phase":"Running"}}`),
		},
	}
}

func other(e event.Event) event.Event {
	e.ID, e.Pod, e.PodUID = "pod-gpu-1"+strings.TrimPrefix(e.ID, "pod-gpu-2"), "train-gpu-1", "pod-gpu-1"
	return e
}

// question is a documented SQL statement with its answer.
type question struct {
	text, title, sql string
	answer           []string
}

func (q question) paragraph() string {
	lines := []string{"-- " + q.title, strings.TrimSpace(q.sql)}
	for _, answer := range q.answer {
		lines = append(lines, "--> "+answer)
	}
	return strings.Join(lines, "\n")
}

// Each statement is a paragraph in an SQL block. It consists of comments with the question, the statement, and the
// lines of the answer. These lines begin with "-->".
func questions(t *testing.T, text string) (all []question) {
	t.Helper()
	for i, block := range strings.Split(text, "```") {
		block, found := strings.CutPrefix(block, "sql\n")
		if i%2 == 0 || !found {
			continue
		}
		for paragraph := range strings.SplitSeq(strings.TrimSpace(block), "\n\n") {
			q := question{text: paragraph}
			for line := range strings.Lines(paragraph) {
				line = strings.TrimSuffix(line, "\n")
				if answer, ok := strings.CutPrefix(line, "--> "); ok {
					q.answer = append(q.answer, answer)
				} else if title, ok := strings.CutPrefix(line, "-- "); ok {
					q.title += title
				} else {
					q.sql += line + "\n"
				}
			}
			all = append(all, q)
		}
	}
	return all
}

// older contains queries for former users of gpuid and Primus-Lens. The queried views have the columns of these
// programs' tables.
var older = []question{
	{sql: "select gpu, count(distinct machine) as machines from serials group by gpu having count(distinct machine) > 1", answer: []string{"1653924023102 | 2"}},
	{sql: "select gpu, count(distinct cluster) as clusters from serials group by gpu having count(distinct cluster) > 1"},
	{sql: "select date(read_time) as day, count(distinct gpu) as gpus from serials group by day order by day", answer: []string{"2026-11-01 | 4", "2026-11-02 | 5"}},
	{sql: "select namespace, name, node_name, uid, gpu_allocated, running, deleted, owner_uid, created_at, updated_at from gpu_pods order by uid", answer: []string{
		"search | chat-7d4b9c | gpu-1 | pod-chat | 1 | 1 | 0 | replicaset-chat | 2026-11-01 00:00 | 2026-11-03 00:00",
		"vision | train-gpu-1 | gpu-1 | pod-gpu-1 | 1 | 0 | 1 | job-train | 2026-11-01 08:03 | 2026-11-01 17:42",
		"vision | train-gpu-2 | gpu-2 | pod-gpu-2 | 1 | 0 | 1 | job-train | 2026-11-01 08:03 | 2026-11-01 17:00", // this pod has had no GPU since 15:59
	}},
	{sql: "select kind, namespace, name, uid, parent_uid, created_at, end_at from gpu_workload order by uid", answer: []string{
		"Deployment | search | chat | deployment-chat |  | 2026-11-01 00:00 | -",
		"Job | vision | train-0 | job-train | jobset-train | 2026-11-01 08:00 | 2026-11-01 18:00",
		"JobSet | vision | train | jobset-train |  | 2026-11-01 08:00 | 2026-11-01 18:00",
		"ReplicaSet | search | chat-7d | replicaset-chat | deployment-chat | 2026-11-01 00:00 | -",
	}},
	{sql: "select workload_uid, pod_uid from workload_pod_reference order by workload_uid, pod_uid", answer: []string{
		"deployment-chat | pod-chat", "job-train | pod-gpu-1", "job-train | pod-gpu-2", "jobset-train | pod-gpu-1", "jobset-train | pod-gpu-2", "replicaset-chat | pod-chat",
	}},
	{sql: "select pod_phase, event_type, created_at, restart_count from gpu_pods_event where pod_uuid = 'pod-gpu-1' order by created_at, event_type desc", answer: []string{
		"Pending | phase | 2026-11-01 08:01 | 0",
		"Running | phase | 2026-11-01 08:04 | 0",
		"Running | Ready | 2026-11-01 08:04 | 0",
		"Running | failure | 2026-11-01 09:00 | 1",
		"Running | Ready | 2026-11-01 09:01 | 1",
	}},
	{sql: "select namespace, name, pod_uid, replace(spec, ' ', '') as spec, metadata, replace(status, ' ', ''), resource_version, created_at from pod_snapshot", answer: []string{
		`vision | train-gpu-1 | pod-gpu-1 | {"nodeName":"gpu-1"} | {"name": "train-gpu-1"} | {"phase":"Running"} | 7 | 2026-11-01 09:00`,
	}},
	{sql: "select uid, gpu_model, gpu_allocated, created_at, end_at from pod_resource order by uid", answer: []string{
		"pod-chat | NVIDIA H100 80GB HBM3 | 1 | 2026-11-01 00:00 | -",
		"pod-gpu-1 | NVIDIA H100 80GB HBM3 | 1 | 2026-11-01 08:03 | 2026-11-01 17:42",
		"pod-gpu-2 | NVIDIA H100 80GB HBM3 | 1 | 2026-11-01 08:03 | 2026-11-01 15:59",
	}},
}

// TestQuestions runs the documented statements on both databases. The views of both databases must contain the same
// rows.
func TestQuestions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	check(t, err)
	documented := questions(t, string(text))
	if len(documented) < 10 {
		t.Fatalf("%s has %d questions, want at least 10", page, len(documented))
	}
	views, columns := make(map[string][]string), []string(nil)
	for _, kind := range kinds {
		server := kind.start(t)
		url, db := server.create(t, "gpuledger")
		sink, err := kind.sink(t.Context(), url)
		check(t, err)
		fileAll(t, sink)
		for i, q := range documented {
			got := db.rows(t, q.sql)
			if *update && kind.name == kinds[0].name {
				documented[i].answer, q.answer = got, got
				text = bytes.ReplaceAll(text, []byte(q.text), []byte(q.paragraph()))
				check(t, os.WriteFile(page, text, 0o644))
			} else if diff := cmp.Diff(q.answer, got); diff != "" {
				t.Errorf("%s: %s (-documented +returned):\n%s\n%s", kind.name, q.title, q.sql, diff)
			}
		}
		for _, q := range older {
			if diff := cmp.Diff(q.answer, db.rows(t, q.sql)); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", kind.name, q.sql, diff)
			}
		}
		testModule(t, kind.name, sink, db)
		check(t, sink.Close())
		elsewhere := server.elsewhere(t, "gpuledger")
		names := elsewhere.rows(t, `select table_name, ordinal_position, column_name from information_schema.columns
			where table_schema = 'gpuledger' and table_name not like '%2026%' and table_name not like '%default' and column_name <> 'n'`)
		slices.Sort(names)
		if columns == nil {
			columns = names
		}
		if diff := cmp.Diff(columns, names); diff != "" {
			t.Errorf("columns (-%s +%s):\n%s", kinds[0].name, kind.name, diff)
		}
		compareViews(t, kind.name, elsewhere, views)
	}
	file := filepath.Join(t.TempDir(), "archive.db")
	sink, err := database.SQLite.Open(t.Context(), file, "")
	check(t, err)
	fileAll(t, sink)
	testModule(t, "SQLite", sink, openFile(t, file))
	check(t, sink.Close())
	compareViews(t, "SQLite", openFile(t, file), views)
}

func fileAll(t *testing.T, sink closer) {
	t.Helper()
	fileExample(t, sink)
	for _, of := range table.Appended {
		check(t, sink.Append(t.Context(), of, table.EventRows(of, "example", table.Place(eventsOfExample(), eventsOfExample()[0].At))))
	}
}

// compareViews compares the rows of each database view with the rows in views, which an earlier call stored for another
// database. Then it stores the rows of this database for the next call.
func compareViews(t *testing.T, name string, db query, views map[string][]string) {
	t.Helper()
	for view, order := range map[string]string{
		"billed": "hour, uuid, revision", "statements": "day, namespace, reason", "allocations": "uuid, first_hour", "placements": "uuid, stay",
		"board_events": "event_time, uuid, event", "serials": "read_time, gpu", "gpu_pods": "uid", "gpu_workload": "uid", "pod_resource": "uid",
		"workload_pod_reference": "workload_uid, pod_uid", "gpu_pods_event": "pod_uuid, created_at, event_type", // pod_snapshot is omitted, because its spaces differ
	} {
		rows := db.rows(t, "select * from "+view+" order by "+order)
		if len(rows) == 0 {
			t.Errorf("%s: view %s is empty", name, view)
		}
		if known, ok := views[view]; ok {
			if diff := cmp.Diff(known, rows); diff != "" {
				t.Errorf("%s (-known +%s):\n%s", view, name, diff)
			}
		}
		views[view] = rows
	}
}

// testPlacements checks the view placements. Boards move, are absent, are in two nodes within an hour, are in two
// clusters, and have an attribute that becomes known later.
func testPlacements(t *testing.T, kind databases, server *server) {
	at := func(hour int, minutes ...int) (first, last time.Time) {
		start := november.Add(time.Duration(hour) * time.Hour)
		return start.Add(time.Duration(minutes[0]) * time.Minute), start.Add(time.Duration(minutes[1]) * time.Minute)
	}
	gpu := func(hour int, node, slot string, minutes ...int) table.GPU {
		g := table.GPU{Node: node, UUID: "GPU-1", ChassisSlot: slot, PCIBusID: "1B", Scrapes: 1, Energy: 1}
		if hour > 0 {
			g.Serial = "S1"
		}
		g.First, g.Last = at(hour, minutes...)
		return g
	}
	history := map[string][][]table.GPU{
		"east": {
			{gpu(0, "a", "", 1, 59)},
			{gpu(1, "a", "1", 1, 59)},
			{gpu(2, "a", "2", 1, 30)},
			{},
			{gpu(4, "a", "2", 1, 20), gpu(4, "b", "2", 30, 59)},
			{gpu(5, "b", "2", 1, 10)},
			{},
			{},
			{},
		},
		"west": {{}, {}, {}, {}, {}, {gpu(5, "a", "2", 40, 59)}, {gpu(6, "a", "2", 1, 59)}, {}, {gpu(8, "a", "3", 5, 59)}},
	}
	url, db := server.create(t, "placements")
	sink, err := kind.sink(t.Context(), url)
	check(t, err)
	for cluster, hours := range history {
		for n, gpus := range hours {
			h := &table.Hour{Cluster: cluster, Start: november.Add(time.Duration(n) * time.Hour), GPUs: gpus}
			check(t, sink.Replace(t.Context(), sinktest.Complete(h)))
		}
	}
	check(t, sink.Close())
	want := []string{
		"1 | seen | east | a | 1 | 2026-11-01 00:01 | 2026-11-01 01:59 | 2026-11-01 02:00 | 2",
		"2 | moved | east | a | 2 | 2026-11-01 02:01 | 2026-11-01 02:30 | 2026-11-01 03:00 | 1",
		"3 | returned | east | a | 2 | 2026-11-01 04:01 | 2026-11-01 04:20 | 2026-11-01 05:00 | 1",
		"4 | moved | east | b | 2 | 2026-11-01 04:30 | 2026-11-01 05:10 | 2026-11-01 06:00 | 2",
		"5 | moved | west | a | 2 | 2026-11-01 05:40 | 2026-11-01 06:59 | 2026-11-01 07:00 | 2",
		"6 | moved | west | a | 3 | 2026-11-01 08:05 | 2026-11-01 08:59 | - | 1",
	}
	got := db.rows(t, "select stay, start_event, cluster, node, chassis_slot, first_seen, last_seen, missing_since, energy_mj from placements where serial = 'S1' order by stay")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("placements (-want +got):\n%s", diff)
	}
	want = []string{"2026-11-01 02:30 | a", "2026-11-01 06:59 | a"}
	if diff := cmp.Diff(want, db.rows(t, "select event_time, node from board_events where event = 'silent' order by event_time")); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
}

// testModule checks that the view serials has one row per hour for a board with two GPUs. gpuid's unique key permits
// only one row.
func testModule(t *testing.T, name string, sink closer, db query) {
	t.Helper()
	h := sinktest.Hour(began, 7)
	second := h.GPUs[0]
	second.UUID, second.Last = "second", second.Last.Add(time.Second)
	h.GPUs = append(h.GPUs, second)
	check(t, sink.Replace(t.Context(), h))
	got := db.rows(t, "select node, gpu, count(*) from serials where cluster = 'east/1' group by node, gpu")
	if diff := cmp.Diff([]string{"a | S1 | 1"}, got); diff != "" {
		t.Errorf("%s: readings of a module board (-want +got):\n%s", name, diff)
	}
}
