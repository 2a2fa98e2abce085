package archive

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var ksm = []string{"ksm-0"}

const always = 1 << 20

// lives contains scenarios of ordinary operation. If command is set, an operator must run a command, because the store
// cannot show why nodes have no samples.
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

var command = regexp.MustCompile(`run gpuledger-archive (accept 'east' --from=\S+ --to=\S+ --reason=)REASON`)

// Every hour of ordinary operation must be archived with the energy of all boards. Some hours need a command: the
// operator runs the single command that the log shows.
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

// faults contains faults of the store. Each begins 125 minutes after noon, while machines run. Some faults coincide
// with an ordinary change. The function lost selects the series that the store loses.
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

func half(_, node, _ string) bool { return strings.HasPrefix(node, "n0-") && node < "n0-3" }

// listed restricts a fault to the series of the exporters. The store keeps the lists of Nodes from kube-state-metrics
// and the reconciler.
func listed(of func(metric, node, instance string) bool) func(metric, node, instance string) bool {
	return func(metric, node, instance string) bool {
		return instance == "" && metric != "kube_pod_info" && metric != "gpuledger_pod_info" && of(metric, node, instance)
	}
}

// busy cordons all machines. They still run pods and are still scraped.
func busy(all []machine) []machine {
	for i := range all {
		all[i].cordoned = true
	}
	return all
}

// While a fault lasts, hours must be refused. Afterwards they must be archived with the energy of all boards.
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
				// The fault begins during this hour, so the hour contains samples of all nodes.
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
