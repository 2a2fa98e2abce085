package ask_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

type use struct {
	namespace     string
	kWh, gpuHours int64
}

// fileUses writes hours in which namespaces use one board. An empty namespace means idle energy.
func fileUses(t *testing.T, hours map[time.Time][]use) (folder string) {
	t.Helper()
	var all []*table.Hour
	for start, uses := range hours {
		h := &table.Hour{Cluster: "east", Start: start, GPUs: []table.GPU{{Node: "n1", UUID: "GPU-1", Model: "H100", First: start, Last: start, Scrapes: 1}}}
		for _, u := range uses {
			c := table.Charge{Node: "n1", UUID: "GPU-1", Namespace: u.namespace, Energy: u.kWh * kWh, GPUTime: u.gpuHours * 3_600_000}
			if c.Reason = "idle"; u.namespace != "" {
				c.Reason, c.Pod, c.PodUID = "", "p", u.namespace
			}
			h.GPUs[0].Energy += c.Energy
			h.Charges = append(h.Charges, c)
		}
		all = append(all, h)
	}
	return bookstest.File(t, "csv", all...)
}

// TestCompare checks the change of each line since the previous month. Each month has its own prices. Some lines exist
// in only one month.
func TestCompare(t *testing.T) {
	folder := fileUses(t, map[time.Time][]use{
		october.AddDate(0, -1, 3): {{"old", 2, 1}, {"ml", 4, 2}, {"", 1, 0}},
		october.AddDate(0, 0, 5):  {{"new", 3, 1}, {"ml", 6, 1}},
		october.AddDate(0, 0, 6):  {{"ml", 1, 0}, {"", 1, 0}},
	})
	list := file(t, "from,until,per_kwh,per_gpu_hour,currency\n2026-09-01,2026-10-01,0.5,1,EUR\n2026-10-01,,0.25,1,EUR\n")
	want := `NAMESPACE       KWH     BEFORE  CHANGE     GPU HOURS  BEFORE  CHANGE     COST EUR  BEFORE  CHANGE
ml              7.000   4.000   +75.0 %    1.00       2.00    -50.0 %    2.75      4.00    -31.2 %
new             3.000   -       -          1.00       -       -          1.75      -       -
old             -       2.000   -100.0 %   -          1.00    -100.0 %   -         2.00    -100.0 %
(unattributed)  1.000   1.000   +0.0 %     0.00       0.00    -          0.25      0.50    -50.0 %
TOTAL           11.000  7.000   +57.1 %    2.00       3.00    -33.3 %    4.75      6.50    -26.9 %
`
	r := run(t, "statement", "--compare", "--by=namespace", "--month=2026-10", "--books="+folder, "--prices="+list)
	table, _, _ := strings.Cut(r.out, "!")
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(table)); diff != "" {
		t.Errorf("-want +got:\n%s\n%s", diff, r.out)
	}
	r.has(0, "! compared with 2026-09-01 00:00 to 2026-10-01 00:00\n", "! incomplete: 742 of 744 hours of east", "! before: incomplete: 719 of 720 hours of east")
	for args, want := range map[string]string{
		"":                                  "compared with 2026-09-01 00:00 to 2026-10-01 00:00", // default: the previous month
		"--from=2026-10-07 --to=2026-10-08": "compared with 2026-10-06 00:00 to 2026-10-07 00:00",
		"--month=2026-09":                   "before: " + folder + " has no hours from 2026-08-01 00:00",
		"--month=2026-10 -o csv":            "\ngroup,new,10800000000,,,3600000,,,false\n",
	} {
		run(t, append(strings.Fields("statement --compare --by=namespace "+args), "--books="+folder)...).has(0, want)
	}
	run(t, "statement", "--compare", "--format=focus", "--books="+folder).has(1, "--compare")
}

// queued writes an archive of one hour. Two LocalQueues in different namespaces have the same name. A third pod, a job
// and idle energy have no queue and no labels.
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

// TestQueueOfUse checks that the queues are in the answer of the command "ran" and in the tags of the FOCUS export.
func TestQueueOfUse(t *testing.T) {
	folder := queued(t)
	r := run(t, "ran", "--pod=blue/p", "--books="+folder, "--from=2026-10-01", "--to=2026-10-01T01", "-o", "csv")
	if lines := strings.Split(strings.TrimSpace(r.out), "\n"); len(lines) != 2 || !strings.HasSuffix(lines[0], ",queue,cluster_queue") || !strings.HasSuffix(lines[1], ",default,training") {
		t.Errorf("the use contains no queues:\n%s%s", r.out, r.err)
	}
	r = run(t, "statement", "--books="+folder, "--from=2026-10-01", "--to=2026-10-01T01", "--format=focus", "--prices="+file(t, prices), "-o", "json")
	r.has(0, `{\"cluster_queue\":\"training\",\"label_cost_center\":\"4711\",\"label_example_com_project\":\"moon\",\"namespace\":\"blue\",\"pod\":\"p\",\"queue\":\"default\"}`,
		`{\"namespace\":\"web\",\"pod\":\"p\"}`)
}

func inKWh(t *testing.T, text string) string {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	check(t, err)
	return strconv.FormatFloat(n/kWh, 'g', -1, 64)
}

// TestTensor checks the tensor-active time of teams, and their energy per tensor-active second. The team blue was
// profiled half of the time. The team green has no tensor activity. The team red was not profiled. The team users used
// a GPU for an hour without an allocation, as users of a machine can do. If no time was profiled, a statement must omit
// the columns.
func TestTensor(t *testing.T) {
	h := &table.Hour{Cluster: "east", Start: october, GPUs: []table.GPU{{Node: "n1", UUID: "GPU-1", First: october, Last: october, Scrapes: 1}}}
	add := func(team string, profiled, tensor *int64) {
		// The energy is 1 kWh per hour.
		c := table.Charge{Node: "n1", UUID: "GPU-1", Namespace: "ml", Pod: team, PodUID: team, Team: team, Energy: kWh, Held: 3_600_000, Profiled: profiled, TensorActive: tensor, DRAMActive: tensor}
		h.GPUs[0].Energy += c.Energy
		h.Charges = append(h.Charges, c)
	}
	add("blue", new(int64(1_800_000)), new(int64(900_000)))
	add("green", new(int64(3_600_000)), new(int64(0)))
	add("red", nil, nil)
	add("users", new(int64(3_600_000)), new(int64(900_000)))
	h.Charges[3].Held, h.Charges[3].Active = 0, 1_800_000
	without := *h
	without.Start, without.Charges = october.AddDate(0, -1, 0), h.Charges[2:3]
	without.GPUs = []table.GPU{h.GPUs[0]}
	without.GPUs[0].Energy = kWh
	folder := bookstest.File(t, "csv", h, &without)
	// The team blue used half of 3.6 MJ in 900 s: 2000 J/s. All teams used 9 MJ in the profiled time, 2.5 of 4 hours.
	run(t, "statement", "--by=team", "--month=2026-10", "-o", "csv", "--books="+folder).lists(
		[]string{"team", "profiled_share", "tensor_active_ms", "dram_active_ms", "joules_per_tensor_second"},
		"blue,0.5,900000,900000,2000", "green,1,0,0,", "red,,,,", "users,1,900000,900000,4000", "(unattributed),,,,", "TOTAL,0.625,1800000,1800000,5000")
	r := run(t, "statement", "--by=team", "--month=2026-10", "--books="+folder)
	text := `TEAM            KWH    IDLE   MEASURED  ESTIMATED  GPU HOURS  ACTIVE HOURS  BUSY HOURS  PROFILED  TENSOR HOURS  J PER TENSOR S
blue            1.000  0.0 %  0.0 %     0.0 %      0.00       0.00          0.00        50.0 %    0.25          2000.00
green           1.000  0.0 %  0.0 %     0.0 %      0.00       0.00          0.00        100.0 %   0.00          -
red             1.000  0.0 %  0.0 %     0.0 %      0.00       0.00          0.00        -         -             -
`
	r.has(0, text)
	r = run(t, "statement", "--by=team", "--month=2026-09", "-o", "csv", "--books="+folder)
	r.has(0, "red")
	r.lacks("tensor")
}

// TestTensorParts checks that prices and carbon intensities do not change the energy per tensor-active second. A team
// used one GPU in each of two clusters. One of the GPUs was profiled for half an hour.
func TestTensorParts(t *testing.T) {
	var hours []*table.Hour
	for _, cluster := range []string{"east", "west"} {
		h := &table.Hour{Cluster: cluster, Start: october, GPUs: []table.GPU{{Node: "n1", UUID: "GPU-" + cluster, Energy: kWh, First: october, Last: october, Scrapes: 1}}}
		h.Charges = []table.Charge{{Node: "n1", UUID: "GPU-" + cluster, Namespace: "ml", Pod: "p", PodUID: "u", Team: "blue", Energy: kWh, Held: 3_600_000}}
		hours = append(hours, h)
	}
	east, west := &hours[0].Charges[0], &hours[1].Charges[0]
	east.Profiled, east.TensorActive, east.DRAMActive = new(int64(1_800_000)), new(int64(900_000)), new(int64(0))
	west.Energy, hours[1].GPUs[0].Energy = 3*kWh, 3*kWh
	folder := bookstest.File(t, "csv", hours...)
	// A quarter of the time was profiled. A quarter of 4 kWh is 3.6 MJ, and 3.6 MJ in 900 s are 4000 J/s.
	for _, flag := range []string{"--tz=UTC", "--prices=" + file(t, prices), "--carbon=" + file(t, "from,grams_per_kwh\n2026-10-01,400\n")} {
		run(t, "statement", "--by=team", "--from=2026-10-01", "--to=2026-10-01T01", "-o", "csv", "--books="+folder, flag).
			lists([]string{"team", "profiled_share", "joules_per_tensor_second"}, "blue,0.25,4000", "(unattributed),,", "TOTAL,0.25,4000")
	}
}
