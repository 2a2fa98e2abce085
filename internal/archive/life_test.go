package archive

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Times are minutes since noon. A machine is scraped from born until end, except while it is off. Shortly after end,
// its Node object is deleted.
type machine struct {
	name, board string
	born, end   int
	offs        [][2]int // times of maintenance; ten minutes earlier, the machine is cordoned and drained
	cordoned    bool     // the machine is always cordoned, but never drained or off
}

type life struct {
	machines []machine
	lists    []string // programs that list Nodes: shards of kube-state-metrics, or the reconciler
	dark     [2]int   // nothing is scraped from the first minute until the second minute, for example because Prometheus is down
	minutes  int
}

// off reports whether the machine is off now, or goes off within the next minutes (soon).
func (m machine) off(minute, soon int) bool {
	for _, o := range m.offs {
		if minute >= o[0]-soon && minute < o[1] {
			return true
		}
	}
	return false
}

// meter returns the energy counter of a machine, in millijoules. Machines with names of different length draw different
// power, so that a test detects the energy of a wrong machine.
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

// node adds the series that kube-state-metrics or the reconciler exports for a Node.
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

func pool(n, born, end int) (all []machine) {
	for i := range n {
		name := fmt.Sprintf("n%d-%d", born, i)
		all = append(all, machine{name: name, board: "GPU-" + name, born: born, end: end})
	}
	return all
}

func ends(all []machine, at map[int]int) []machine {
	for i, end := range at {
		all[i].end = end
	}
	return all
}

const lifeHours = 6

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

// once runs a command at a minute after noon.
func (f *filing) once(minute int, args ...string) error {
	f.Helper()
	f.now = noon.Add(time.Duration(minute) * time.Minute)
	c, err := Parse(append(args, "--store.url="+f.url, "--folder="+f.dir))
	check(f, err)
	return Once(f.Context(), c, f.now, slog.New(slog.NewTextHandler(&f.log, nil)))
}

// The returned error is the error for the last refused hour.
func (f *filing) hours() (err error) {
	for hour := 1; hour <= lifeHours; hour++ {
		e := f.once(hour*60+6, "once", "--from="+noon.Format(time.RFC3339))
		if errors.Is(e, ErrIncomplete) {
			err = e
		}
	}
	return err
}

func (f *filing) rows() (all []map[string]string) {
	f.Helper()
	r, err := files.OpenReader(f.Context(), f.dir)
	if err != nil {
		return nil
	}
	days, err := r.Days(f.Context())
	for _, day := range days {
		err = errors.Join(err, r.Read(f.Context(), day.Of(table.Hours), table.Hours.Names(), func(row []table.Cell) {
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
	check(f, err)
	return all
}

func (f *filing) sum(column string) (sum int64) {
	for _, row := range f.rows() {
		n, _ := strconv.ParseInt(row[column], 10, 64)
		sum += n
	}
	return sum
}

func (f *filing) accept(minute int) {
	f.Helper()
	found := command.FindAllStringSubmatch(f.log.String(), -1)
	if found == nil {
		f.Fatalf("the log contains no command:\n%s", f.log.String())
	}
	args := strings.Fields(strings.ReplaceAll(found[len(found)-1][1], "'", ""))
	args[len(args)-1] += "the owner removed nodes"
	if err := f.once(minute, args...); err != nil {
		f.Fatalf("accept: %v\n%s", err, f.log.String())
	}
}
