package archive

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// machine is a node with a GPU, in minutes since noon. It is scraped from its birth to its end, except
// while it is off. Its Node exists until it is deleted, shortly after its end.
type machine struct {
	name, board string
	born, end   int
	offs        [][2]int // maintenance: cordoned and drained ten minutes before
	cordoned    bool     // without being drained or off
}

// life is the history of a cluster, and which programs report its Nodes.
type life struct {
	machines []machine
	lists    []string // kube-state-metrics by shard, or reconciler
	dark     [2]int   // when Prometheus is down, too
	minutes  int
}

// off reports whether a machine is off, or will be within some minutes.
func (m machine) off(minute, soon int) bool {
	for _, o := range m.offs {
		if minute >= o[0]-soon && minute < o[1] {
			return true
		}
	}
	return false
}

// meter is the energy of a machine in millijoules at a minute of its life, and truth the sum of the
// last scraped ones: 200 W and a little more for each machine.
func (m machine) meter(minute int) int64 {
	return int64(minute-m.born+1) * 12_000_000 * int64(10+len(m.name)) / 10
}

func (l life) truth() (millijoules int64) {
	for _, m := range l.machines {
		last := -1
		for minute := m.born; minute < min(m.end, l.minutes); minute++ {
			if !m.off(minute, 0) && (minute < l.dark[0] || minute >= l.dark[1]) {
				last = minute
			}
		}
		if last >= 0 {
			millijoules += m.meter(last)
		}
	}
	return millijoules
}

// record returns the samples of a life.
func (l life) record() *foldtest.Store {
	s := foldtest.NewStore()
	for minute := range l.minutes {
		if minute >= l.dark[0] && minute < l.dark[1] {
			continue
		}
		at := noon.Add(time.Duration(minute)*time.Minute + 7*time.Second)
		add := func(value float64, metric string, labels ...string) {
			s.Add(at, value, metric, append(labels, "cluster", "east")...)
		}
		for _, list := range l.lists {
			if list == "reconciler" {
				add(1, "gpuledger_reconciler_leading", "instance", list)
			} else {
				l.node(add, list, "cpu-"+list, false)
			}
		}
		for _, m := range l.machines {
			if minute < m.born || minute >= m.end+2 {
				continue
			}
			for i, list := range l.lists {
				if list == "reconciler" || shard(m.name, len(l.lists)) == i {
					l.node(add, list, m.name, m.cordoned || m.off(minute, 10))
				}
			}
			if minute >= m.end {
				continue
			}
			if len(l.lists) > 0 && !m.off(minute, 8) {
				if l.lists[0] == "reconciler" {
					add(1, "gpuledger_pod_info", "node", m.name, "pod", "train-"+m.name, "pod_uid", m.name)
				} else {
					add(1, "kube_pod_info", "node", m.name, "pod", "train-"+m.name, "created_by_kind", "Job")
				}
			}
			if m.off(minute, 0) {
				continue
			}
			add(1, "up", "job", "gpuledger-record", "node", m.name)
			add(1, "gpuledger_placement_info", "node", m.name, "UUID", m.board, "serial", m.board)
			add(float64(m.meter(minute))/1000, "gpuledger_board_energy_joules_total", "node", m.name, "UUID", m.board)
			add(float64(noon.Unix()+int64(m.born*60)), "gpuledger_board_created_timestamp_seconds", "node", m.name, "UUID", m.board)
		}
	}
	return s
}

// node adds what a program reports about a Node.
func (l life) node(add func(float64, string, ...string), list, name string, cordoned bool) {
	if list == "reconciler" {
		add(1, "gpuledger_node_expected", "node", name, "reason", "allocatable", "instance", list)
		add(1, "gpuledger_node_machine_info", "node", name, "machine", name, "instance", list)
		return
	}
	unschedulable := 0.0
	if cordoned {
		unschedulable = 1
	}
	add(1, "kube_node_info", "node", name, "job", "kube-state-metrics", "instance", list)
	add(1, "kube_node_created", "node", name, "job", "kube-state-metrics", "instance", list)
	add(unschedulable, "kube_node_spec_unschedulable", "node", name, "job", "kube-state-metrics", "instance", list)
	if !strings.HasPrefix(name, "cpu") {
		add(1, "kube_pod_info", "node", name, "pod", "exporter-"+name, "created_by_kind", "DaemonSet")
	}
}

func shard(name string, of int) int {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name))
	return int(sum.Sum32() % uint32(of))
}

// pool returns machines n0, n1 and so on.
func pool(n, born, end int) (all []machine) {
	for i := range n {
		name := fmt.Sprintf("n%d-%d", born, i)
		all = append(all, machine{name: name, board: "GPU-" + name, born: born, end: end})
	}
	return all
}

// ends sets the ends of some machines.
func ends(all []machine, at map[int]int) []machine {
	for i, end := range at {
		all[i].end = end
	}
	return all
}

var ksm = []string{"ksm-0"}

const always = 1 << 20

// lives are ten scenarios of ordinary life, and variants. A command is needed if nothing shows what
// happened to the nodes.
var lives = []struct {
	name    string
	life    life
	command bool
}{
	{"spot nodes", life{machines: ends(pool(20, 0, always), map[int]int{1: 70, 4: 131, 5: 139, 6: 179, 9: 181, 10: 184}), lists: ksm}, false},
	{"scale to zero and back", life{machines: append(pool(3, 0, 140), pool(3, 310, always)...), lists: ksm}, false},
	{"scale to zero and back, by the reconciler", life{machines: append(pool(3, 0, 140), pool(3, 310, always)...), lists: []string{"reconciler"}}, false},
	{"scale to zero and back, unseen", life{machines: append(pool(3, 0, 140), pool(3, 310, always)...)}, true},
	{"the only node", life{machines: append(pool(1, 0, 140), pool(1, 250, always)...), lists: ksm}, false},
	{"the only node, unseen", life{machines: append(pool(1, 0, 140), pool(1, 250, always)...)}, true},
	{"a removed cluster", life{machines: pool(3, 0, 140), lists: ksm, dark: [2]int{140, always}}, true},
	{"rolling maintenance", life{machines: rolling(pool(4, 0, always), 130), lists: ksm}, false},
	{"a new cluster", life{machines: pool(4, 190, always), lists: ksm}, false},
	{"cordon, drain and delete", life{machines: retire(pool(8, 0, always), 3, 150), lists: ksm}, false},
	{"a new name with the same board", life{machines: renamed(pool(3, 0, always), 2, 150)}, false},
	{"maintenance of the whole cluster", life{machines: together(pool(4, 0, always), 110, 330), lists: ksm}, false},
	{"maintenance of the whole cluster, unseen", life{machines: together(pool(4, 0, always), 110, 330), dark: [2]int{110, 330}}, true},
	{"autoscaling", life{machines: append(ends(pool(20, 0, always), map[int]int{3: 100, 8: 101}), pool(7, 200, always)...), lists: []string{"reconciler"}}, false},
	{"2 of 20 unseen", life{machines: ends(pool(20, 0, always), map[int]int{3: 100, 8: 101})}, true},
	{"2 of 3 unseen", life{machines: ends(pool(3, 0, always), map[int]int{0: 100, 1: 101})}, true},
}

// rolling turns off one machine after the other.
func rolling(all []machine, minutes int) []machine {
	for i := range all {
		all[i].offs = [][2]int{{65 + 55*i, 65 + 55*i + minutes}}
	}
	return all
}

func together(all []machine, from, until int) []machine {
	for i := range all {
		all[i].offs = [][2]int{{from, until}}
	}
	return all
}

func retire(all []machine, n, at int) []machine {
	for i := range n {
		all[i].offs, all[i].end = [][2]int{{at, always}}, at+100
	}
	return all
}

func renamed(all []machine, n, at int) []machine {
	for i := range n {
		all[i].end = at
		all = append(all, machine{name: "new-" + all[i].name, board: all[i].board, born: at + 4, end: always})
	}
	return all
}

const lifeHours = 6

// filing is an archive that files a life hour by hour.
type filing struct {
	*testing.T
	url, dir string
	hidden   func(labels map[string]string, at time.Time) bool
	now      time.Time
	log      bytes.Buffer
}

func newFiling(t *testing.T, l life) *filing {
	l.minutes = max(l.minutes, lifeHours*60+30)
	f := &filing{T: t, dir: t.TempDir()}
	record := l.record()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		foldtest.API{Store: record, Hidden: func(labels map[string]string, at time.Time) bool {
			return at.After(f.now) || f.hidden != nil && f.hidden(labels, at)
		}}.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// once runs a command at the minute after noon.
func (f *filing) once(minute int, args ...string) error {
	f.Helper()
	f.now = noon.Add(time.Duration(minute) * time.Minute)
	c, err := Parse(append(args, "--store.url="+f.url, "--folder="+f.dir))
	if err != nil {
		f.Fatal(err)
	}
	return Once(f.Context(), c, f.now, slog.New(slog.NewTextHandler(&f.log, nil)))
}

// hours files all hours until the end of a life, each shortly after its end. The error is that of the
// last hour that was refused then.
func (f *filing) hours() (err error) {
	for hour := 1; hour <= lifeHours; hour++ {
		e := f.once(hour*60+6, "once", "--from="+noon.Format(time.RFC3339))
		if errors.Is(e, ErrIncomplete) {
			err = e
		}
	}
	return err
}

// rows returns the rows of the manifest by column.
func (f *filing) rows() (all []map[string]string) {
	f.Helper()
	r, err := files.OpenReader(f.Context(), f.dir)
	if err != nil {
		return nil
	}
	days, err := r.Days(f.Context())
	for _, day := range days {
		err = errors.Join(err, r.Read(f.Context(), table.Hours, day, table.Hours.Names(), func(row []table.Cell) {
			values := make(map[string]string)
			for i, c := range table.Hours.Columns {
				values[c.Name] = row[i].Text
				if c.Type != table.Text {
					values[c.Name] = strconv.FormatInt(row[i].Int, 10)
				}
			}
			all = append(all, values)
		}))
	}
	if err != nil {
		f.Fatal(err)
	}
	return all
}

func (f *filing) sum(column string) (sum int64) {
	for _, row := range f.rows() {
		n, _ := strconv.ParseInt(row[column], 10, 64)
		sum += n
	}
	return sum
}

var command = regexp.MustCompile(`run gpuledger-archive (accept 'east' --from=\S+ --to=\S+ --reason=)REASON`)

// accept runs the last command that the log names.
func (f *filing) accept(minute int) {
	f.Helper()
	found := command.FindAllStringSubmatch(f.log.String(), -1)
	if found == nil {
		f.Fatalf("the log names no command:\n%s", f.log.String())
	}
	args := strings.Fields(strings.ReplaceAll(found[len(found)-1][1], "'", ""))
	args[len(args)-1] += "the owner removed nodes"
	if err := f.once(minute, args...); err != nil {
		f.Fatalf("accept: %v\n%s", err, f.log.String())
	}
}

// TestLives checks that the hours of an ordinary life are filed by themselves, or after one command
// that the log names, with the energy of all boards.
func TestLives(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	for _, tt := range lives {
		t.Run(tt.name, func(t *testing.T) {
			f := newFiling(t, tt.life)
			err := f.hours()
			if (err != nil) != tt.command {
				t.Fatalf("error %v, want one only if a command is needed:\n%s", err, f.log.String())
			}
			reasons := 0
			if tt.command {
				f.accept(lifeHours*60 + 8)
				if err := f.once(lifeHours*60+9, "once", "--from="+noon.Format(time.RFC3339)); err != nil {
					t.Errorf("hours are refused after the command: %v\n%s", err, f.log.String())
				}
			}
			born := tt.life.machines[0].born / 60
			rows := f.rows()
			if want := lifeHours - born; len(rows) != want {
				t.Errorf("%d hours are filed, want %d:\n%s", len(rows), want, f.log.String())
			}
			for _, row := range rows {
				if (row["state"] == "gaps") != (row["reason"] == "the owner removed nodes") {
					t.Errorf("state %s with the reason %q", row["state"], row["reason"])
				}
				if row["state"] == "gaps" {
					reasons++
				}
			}
			if (reasons > 0) != tt.command {
				t.Errorf("%d hours have gaps", reasons)
			}
			l := tt.life
			l.minutes = lifeHours * 60
			if got, want := f.sum("energy_mj"), l.truth(); got != want {
				t.Errorf("%d mJ are filed, want %d", got, want)
			}
		})
	}
}

// faults are faults of the store while machines run, some of them beside an ordinary change. They begin
// 125 minutes after noon. Lost reports whether a series is lost.
var faults = []struct {
	name string
	life life
	lost func(metric, node, instance string) bool
}{
	{"a component without a list of nodes", life{machines: pool(6, 0, always)}, half},
	{"a component, and the list of nodes", life{machines: pool(6, 0, always), lists: ksm}, func(metric, node, instance string) bool {
		return half(metric, node, instance) || instance != ""
	}},
	{"a component, with its part of every list", life{machines: pool(6, 0, always), lists: []string{"ksm-0", "ksm-1"}}, func(_, node, instance string) bool {
		return !strings.HasPrefix(node, "cpu") && shard(node, 2) == 1 || instance == "ksm-1"
	}},
	{"half of the nodes that kube-state-metrics lists", life{machines: pool(6, 0, always), lists: ksm}, listed(half)},
	{"half of the nodes that the reconciler lists", life{machines: pool(6, 0, always), lists: []string{"reconciler"}}, listed(half)},
	{"all nodes, which are listed", life{machines: pool(3, 0, always), lists: ksm}, listed(func(_, node, _ string) bool { return !strings.HasPrefix(node, "cpu") })},
	{"the only node, which is listed", life{machines: pool(1, 0, always), lists: ksm}, listed(func(_, node, _ string) bool { return !strings.HasPrefix(node, "cpu") })},
	{"all nodes, which are not listed", life{machines: pool(3, 0, always)}, func(string, string, string) bool { return true }},
	{"the reconciler and all nodes", life{machines: pool(3, 0, always), lists: []string{"reconciler"}}, func(string, string, string) bool { return true }},
	{"a shard of targets, with the list of nodes", life{machines: pool(9, 0, always), lists: ksm}, func(_, node, instance string) bool {
		return instance != "" || shard(node, 3) == 0
	}},
	{"a shard of targets, without the list of nodes", life{machines: pool(9, 0, always), lists: ksm}, listed(func(_, node, _ string) bool { return shard(node, 3) == 0 })},
	{"the info, but not the other series of Nodes", life{machines: pool(6, 0, always), lists: ksm}, func(metric, node, instance string) bool {
		return half(metric, node, instance) && (instance == "" || metric == "kube_node_info")
	}},
	{"cordoned nodes that still run pods", life{machines: busy(pool(6, 0, always)), lists: ksm}, listed(half)},
	{"nodes beside autoscaling", life{machines: ends(pool(20, 0, always), map[int]int{3: 100, 8: 118}), lists: ksm}, listed(func(_, node, _ string) bool {
		return strings.HasPrefix(node, "n0-1") && node != "n0-1"
	})},
	{"a node beside the end of all others", life{machines: ends(pool(3, 0, always), map[int]int{1: 100, 2: 118}), lists: ksm}, listed(half)},
	{"nodes beside a renamed one", life{machines: renamed(pool(6, 0, always), 1, 110)}, func(_, node, _ string) bool { return node == "n0-4" || node == "n0-5" }},
}

// half selects half of the nodes.
func half(_, node, _ string) bool { return strings.HasPrefix(node, "n0-") && node < "n0-3" }

// listed keeps the series of kube-state-metrics and of the reconciler.
func listed(of func(metric, node, instance string) bool) func(metric, node, instance string) bool {
	return func(metric, node, instance string) bool {
		return instance == "" && metric != "kube_pod_info" && metric != "gpuledger_pod_info" && of(metric, node, instance)
	}
}

// busy cordons machines whose pods and scrapes continue.
func busy(all []machine) []machine {
	for i := range all {
		all[i].cordoned = true
	}
	return all
}

// TestFaults checks that the hours of a fault are refused as long as it lasts, and filed afterwards with
// the energy of all boards.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	const begin = 125
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			f := newFiling(t, tt.life)
			f.hidden = func(labels map[string]string, at time.Time) bool {
				return !at.Before(noon.Add(begin*time.Minute)) && tt.lost(labels["__name__"], labels["node"], labels["instance"])
			}
			if err := f.hours(); err == nil {
				t.Error("no hour is refused")
			}
			for _, row := range f.rows() {
				ms, _ := strconv.ParseInt(row["hour"], 10, 64)
				// The hour in which the fault begins has samples of all nodes.
				if hour := time.UnixMilli(ms).Sub(noon) / time.Hour; hour > begin/60 {
					t.Errorf("hour %d is filed with %s GPUs, %s of %s silent nodes are explained", hour, row["gpus"], row["explained_nodes"], row["silent_nodes"])
				}
			}
			f.hidden = nil
			if err := f.once(lifeHours*60+20, "once", "--again", "--from="+noon.Format(time.RFC3339)); err != nil {
				t.Errorf("hours are refused after the fault: %v\n%s", err, f.log.String())
			}
			l := tt.life
			l.minutes = lifeHours * 60
			if got, want := f.sum("energy_mj"), l.truth(); got != want {
				t.Errorf("%d mJ are filed, want %d", got, want)
			}
		})
	}
}

// TestAcceptedAgain checks that an accepted hour that is read again keeps its state and reason, also with
// late samples, and is not replaced while the store lacks nodes that the hour has.
func TestAcceptedAgain(t *testing.T) {
	f := newFiling(t, life{machines: pool(6, 0, always)})
	lost := map[string]bool{"n0-0": true, "n0-1": true, "n0-2": true}
	f.hidden = func(labels map[string]string, at time.Time) bool {
		return lost[labels["node"]] && at.After(noon.Add(time.Hour)) && at.Before(noon.Add(2*time.Hour+time.Second))
	}
	hours := []string{"once", "--again", "--from=2026-03-01T12", "--until=2026-03-01T15"}
	if err := f.once(190, hours...); err == nil {
		t.Error("a fault is not refused")
	}
	f.accept(191)
	for _, step := range []struct {
		lost                  []string
		err                   bool
		state, revision, gpus string
	}{
		{[]string{"n0-0", "n0-1", "n0-2"}, false, "gaps", "1", "3"},
		{[]string{"n0-0", "n0-1", "n0-2", "n0-3"}, true, "gaps", "1", "3"},
		{[]string{"n0-0", "n0-1"}, false, "gaps", "2", "4"},
		{nil, false, "complete", "3", "6"},
		{[]string{"n0-0"}, true, "complete", "3", "6"},
	} {
		clear(lost)
		for _, node := range step.lost {
			lost[node] = true
		}
		if err := f.once(192, hours...); (err != nil) != step.err {
			t.Errorf("without %s: error %v", step.lost, err)
		}
		row := f.rows()[1]
		if row["state"] != step.state || row["revision"] != step.revision || row["gpus"] != step.gpus {
			t.Errorf("without %s: state %s, revision %s, %s GPUs, want %+v", step.lost, row["state"], row["revision"], row["gpus"], step)
		}
		if (row["reason"] == "the owner removed nodes") != (step.state == "gaps") {
			t.Errorf("without %s: reason %q", step.lost, row["reason"])
		}
	}
}

// TestGoneCluster checks that the hours after the removal of a cluster was accepted need no other command,
// and end two days later.
func TestGoneCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	f := newFiling(t, life{machines: pool(2, 0, 100)})
	from := "--from=" + noon.Format(time.RFC3339)
	if err := f.once(190, "once", from); err == nil {
		t.Error("a removed cluster is not refused")
	}
	f.accept(191)
	const days = 3 * 24
	for hour := 4; hour < days; hour += 4 {
		if err := f.once(hour*60+6, "once", from); errors.Is(err, ErrIncomplete) {
			t.Errorf("%d hours later: %v\n%s", hour, err, f.log.String())
		}
	}
	// Hour 1 is the last one with samples.
	if got, want := len(f.rows()), 2+48; got != want {
		t.Errorf("%d hours are filed, want %d", got, want)
	}
	for _, row := range f.rows()[1:] {
		if row["state"] != "gaps" || row["reason"] != "the owner removed nodes" {
			t.Errorf("an hour has the state %s and the reason %q", row["state"], row["reason"])
		}
	}
}

// TestRemovedAtTheEnd checks that an hour is filed by itself if its last nodes are removed at its end, and
// their Nodes a moment later.
func TestRemovedAtTheEnd(t *testing.T) {
	f := newFiling(t, life{machines: pool(2, 0, 179), lists: ksm})
	for _, minute := range []int{185, 187, 191, 197} {
		_ = f.once(minute, "once", "--from="+noon.Format(time.RFC3339))
	}
	if err := f.once(246, "once", "--from="+noon.Format(time.RFC3339)); err != nil || len(f.rows()) != 4 {
		t.Errorf("error %v, %d hours are filed, want 4:\n%s", err, len(f.rows()), f.log.String())
	}
}

// TestLongMaintenance checks that one command files a cluster that was down for more than two days.
func TestLongMaintenance(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	const down, up, end = 90, 53 * 60, 56
	l := life{machines: pool(2, 0, always), dark: [2]int{down, up}, minutes: end*60 + 30}
	f := newFiling(t, l)
	from := "--from=" + noon.Format(time.RFC3339)
	for _, minute := range []int{60 + 6, 130, 52 * 60, end*60 + 6} {
		_ = f.once(minute, "once", from)
	}
	if got := len(f.rows()); got == end {
		t.Error("all hours are filed without a command")
	}
	f.accept(end*60 + 7)
	if got := len(f.rows()); got != end {
		t.Errorf("%d hours are filed, want %d:\n%s", got, end, f.log.String())
	}
}

// TestScrapeInterval checks that a store whose targets are scraped every five minutes is archived.
func TestScrapeInterval(t *testing.T) {
	f := newFiling(t, life{machines: pool(3, 0, always)})
	f.hidden = func(_ map[string]string, at time.Time) bool { return at.Sub(noon)/time.Minute%5 != 0 }
	if err := f.hours(); err != nil {
		t.Errorf("%v\n%s", err, f.log.String())
	}
	f = newFiling(t, life{machines: pool(3, 0, always)})
	f.hidden = func(labels map[string]string, at time.Time) bool {
		return labels["__name__"] != "up" && at.Sub(noon)/time.Minute%5 != 0
	}
	if err := f.hours(); err == nil || f.rows() != nil || !strings.Contains(f.log.String(), "downsampled") {
		t.Errorf("thinned samples: error %v, rows %v\n%s", err, f.rows(), f.log.String())
	}
}

// TestUnknownCluster checks that accept files nothing for a name that neither the store nor the archive has.
func TestUnknownCluster(t *testing.T) {
	f := newFiling(t, life{machines: pool(2, 0, always)})
	if err := f.once(130, "accept", "esat", "--from=2026-03-01T12", "--to=2026-03-01T14", "--reason=typing error"); err == nil || f.rows() != nil {
		t.Errorf("error %v, rows %v", err, f.rows())
	}
}

// TestCommand checks that the command in a refusal reaches the program as it is meant, through a shell.
func TestCommand(t *testing.T) {
	const cluster = `it's "$HOME" \ 1; exit`
	r := newRefusals(newMetrics().refused, slog.New(slog.DiscardHandler))
	silent := &refusal{errSilent, true}
	for _, hour := range []int{-4, 0, 1, 2} {
		r.add(cluster, noon.Add(time.Duration(hour)*time.Hour), time.Time{}, silent)
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(r.command(refusedHour{cluster, noon.Add(2 * time.Hour)}, time.Time{}), "gpuledger-archive "), " with ")
	out, err := exec.Command("sh", "-c", `printf '%s\n' `+text).Output()
	want := "accept\n" + cluster + "\n--from=2026-03-01T12\n--to=2026-03-01T15\n--reason=REASON\n"
	if string(out) != want || err != nil {
		t.Errorf("the shell passes %q, error %v, want %q", out, err, want)
	}
	for newest, from := range map[int]string{-10: "2026-03-01T03", 1: "2026-03-01T12", -24 * 30: "2026-03-01T12"} {
		text := r.command(refusedHour{cluster, noon.Add(2 * time.Hour)}, noon.Add(time.Duration(newest)*time.Hour))
		if !strings.Contains(text, "--from="+from+" ") {
			t.Errorf("hour %d is filed: %s, want --from=%s", newest, text, from)
		}
	}
}
