package ask_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// queued files an hour. Two namespaces each contain a LocalQueue with the same name. A third pod, a job and idle energy
// have no queue and no labels.
func queued(t *testing.T) (folder string) {
	t.Helper()
	pod := func(namespace, queue, clusterQueue, labels string, energy int64) table.Charge {
		return table.Charge{
			Node: "n1", UUID: "GPU-1", Namespace: namespace, Pod: "p", PodUID: "u-" + namespace, Queue: queue, ClusterQueue: clusterQueue, Labels: labels,
			Energy: energy, Idle: energy / 2, GPUTime: 3_600_000,
		}
	}
	h := &table.Hour{Cluster: "east", Start: october, GPUs: []table.GPU{{Node: "n1", UUID: "GPU-1", Energy: 16 * kWh, Scrapes: 60, First: october, Last: october.Add(59 * time.Minute)}}}
	h.Charges = []table.Charge{
		pod("blue", "default", "training", "cost_center=4711,example_com_project=moon", 4*kWh), pod("red", "default", "inference", "cost_center=4711", 2*kWh), pod("web", "", "", "", kWh),
		{Node: "n1", UUID: "GPU-1", Manager: "slurm", Unit: "7", Energy: 8 * kWh},
		{Node: "n1", UUID: "GPU-1", Reason: "idle", Energy: kWh},
	}
	return bookstest.File(t, "csv", h)
}

// TestQueues checks statements by queue and by label.
func TestQueues(t *testing.T) {
	folder := queued(t)
	tests := []struct{ question, by, want string }{
		{"statement", "queue", "group,,9 group,default,6 unattributed,(unattributed),1 total,TOTAL,16"},
		{"statement", "cluster_queue", "group,,9 group,inference,2 group,training,4 unattributed,(unattributed),1 total,TOTAL,16"},
		{"statement", "namespace,queue", "group,,,8 group,blue,default,4 group,red,default,2 group,web,,1 unattributed,(unattributed),,1 total,TOTAL,,16"},
		{"statement", "label:cost-center", "group,,9 group,4711,6 unattributed,(unattributed),1 total,TOTAL,16"},
		{"statement", "label:example.com/project,label:cost-center", "group,,,9 group,4711,,2 group,4711,moon,4 unattributed,(unattributed),,1 total,TOTAL,,16"},
		{"statement", "queue,label:cost-center", "group,,,9 group,4711,default,6 unattributed,(unattributed),,1 total,TOTAL,,16"},
		{"idle", "label:cost-center", "group,4711,3 group,,0.5 total,TOTAL,3.5"},
		{"idle", "queue", "group,default,3 group,,0.5 total,TOTAL,3.5"},
	}
	for _, tt := range tests {
		t.Run(tt.question+" "+tt.by, func(t *testing.T) {
			r := run(t, tt.question, "--month=2026-10", "--by="+tt.by, "--books="+folder, "-o", "csv")
			columns := strings.Count(tt.by, ",") + 2
			var got []string
			for i, line := range strings.Split(strings.TrimSpace(r.out), "\n") {
				cells := strings.Split(line, ",")
				if i == 0 {
					if name := cells[columns]; name != "energy_mj" && name != "idle_mj" {
						t.Fatalf("column %q, want the energy", name)
					}
					continue
				}
				got = append(got, strings.Join(append(cells[:columns:columns], inKWh(t, cells[columns])), ","))
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("status %d:\n%s, want\n%s\n%s%s", r.status, text, tt.want, r.out, r.err)
			}
		})
	}
}

// TestQueueOfUse checks that the details of a use and the tags in FOCUS contain the queues.
func TestQueueOfUse(t *testing.T) {
	folder := queued(t)
	r := run(t, "ran", "--pod=blue/p", "--books="+folder, "--from=2026-10-01", "--to=2026-10-01T01", "-o", "csv")
	if lines := strings.Split(strings.TrimSpace(r.out), "\n"); len(lines) != 2 || !strings.HasSuffix(lines[0], ",queue,cluster_queue") || !strings.HasSuffix(lines[1], ",default,training") {
		t.Errorf("the use contains no queues:\n%s%s", r.out, r.err)
	}
	r = run(t, "statement", "--books="+folder, "--from=2026-10-01", "--to=2026-10-01T01", "--format=focus", "--prices="+file(t, prices), "-o", "json")
	for _, tags := range []string{
		`{\"cluster_queue\":\"training\",\"label_cost_center\":\"4711\",\"label_example_com_project\":\"moon\",\"namespace\":\"blue\",\"pod\":\"p\",\"queue\":\"default\"}`, `{\"namespace\":\"web\",\"pod\":\"p\"}`,
	} {
		if !strings.Contains(r.out, tags) {
			t.Errorf("no tags %s:\n%s%s", tags, r.out, r.err)
		}
	}
}

// inKWh converts millijoules to kilowatt hours.
func inKWh(t *testing.T, text string) string {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	check(t, err)
	return strconv.FormatFloat(n/kWh, 'g', -1, 64)
}
