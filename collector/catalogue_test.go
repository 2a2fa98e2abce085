package collector_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/metric"
	"github.com/gpuledger/gpuledger/internal/stage"
)

type shape struct {
	Page             metric.Page
	Type, Unit, Help string
	Labels           []string
}

// TestCatalogueMatchesPages compares the metrics on the pages with the catalogue. Each metric on a page must be in
// the catalogue with the same page, type, unit, help and labels. Each page must contain all metrics that the
// catalogue lists for it.
func TestCatalogueMatchesPages(t *testing.T) {
	want := make(map[string]shape)
	for _, m := range collector.Catalogue() {
		want[m.Name] = shape{m.Page, m.TypeName(), m.Unit, m.Help, slices.Sorted(slices.Values(m.Labels))}
	}
	got := make(map[string]shape)
	for _, tt := range scenarios {
		for _, mf := range gather(t, tt.snapshot(), tt.opts) {
			got[mf.GetName()] = shapeOf(collector.MainPage, mf)
		}
		for _, mf := range gatherRecord(t, tt.snapshot()) {
			got[mf.GetName()] = shapeOf(collector.RecordPage, mf)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages differ from the catalogue (-catalogue +pages):\n%s", diff)
	}
}

func shapeOf(p metric.Page, mf *dto.MetricFamily) shape {
	s := shape{Page: p, Type: strings.ToLower(mf.GetType().String()), Unit: mf.GetUnit(), Help: mf.GetHelp()}
	for _, l := range mf.Metric[0].Label {
		s.Labels = append(s.Labels, l.GetName())
	}
	return s
}

// TestDescribe checks that a collector describes all metrics of its page, except the metrics that its options hide.
func TestDescribe(t *testing.T) {
	tests := []struct {
		name   string
		page   metric.Page
		opts   collector.Options
		hidden string
	}{
		{"all", collector.MainPage, everything, "nothing"},
		{"no gauges", collector.MainPage, collector.Options{Health: true, Details: true, Profiling: true, Process: collector.ProcessShared}, collector.FlagGauges},
		{"no health", collector.MainPage, collector.Options{Gauges: true, Details: true, Profiling: true, Process: collector.ProcessShared}, collector.FlagHealth},
		{"no details", collector.MainPage, collector.Options{Gauges: true, Health: true, Profiling: true, Process: collector.ProcessShared}, collector.FlagDetails},
		{"no profile", collector.MainPage, collector.Options{Gauges: true, Health: true, Details: true, Process: collector.ProcessShared}, collector.FlagProfiling},
		{"no processes", collector.MainPage, collector.Options{Gauges: true, Health: true, Details: true, Profiling: true, Process: collector.ProcessNever}, collector.FlagProcess},
		{"record", collector.RecordPage, everything, "nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := collector.New(func() *gpu.Snapshot { return nil }, tt.opts)
			if tt.page == collector.RecordPage {
				c = collector.NewRecord(func() *gpu.Snapshot { return nil })
			}
			var want, got []string
			for _, m := range collector.Catalogue() {
				if m.Page == tt.page && m.Flag != tt.hidden {
					want = append(want, m.Name)
				}
			}
			ch := make(chan *prometheus.Desc, len(collector.Catalogue()))
			c.Describe(ch)
			close(ch)
			for d := range ch {
				_, rest, _ := strings.Cut(d.String(), `fqName: "`)
				name, _, _ := strings.Cut(rest, `"`)
				got = append(got, name)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("descriptions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMistakes simulates four mistakes in this package: an additional label, a missing label, a wrong label name, and a
// metric that is missing from the page. After each mistake, creating a collector must panic.
func TestMistakes(t *testing.T) {
	labels := []string{"driver_version", "", "nvml_version", "", "dcgm_version", "", "dcgm_library_version", ""}
	tests := []struct {
		name    string
		without bool
		labels  []string
		want    string // text in the panic, or empty if there is no panic
	}{
		{"none", false, append(labels, "source", ""), ""},
		{"surplus label", false, append(labels, "source", "", "vendor", ""), "source, vendor, but must have"},
		{"missing label", false, labels, "nvml_version, but must have"},
		{"wrong label name", false, append(labels, "sources", ""), "sources, but must have"},
		{"missing metric", true, append(labels, "source", ""), "gpuledger_gpu_info"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, tt.want) || tt.want == "" && got != "<nil>" {
					t.Errorf("panic is %s, want %q", got, tt.want)
				}
			}()
			collector.NewMistaken(tt.without, tt.labels...)
		})
	}
}

func TestCatalogueNames(t *testing.T) {
	for _, m := range collector.Catalogue() {
		base := strings.TrimSuffix(m.Name, "_total")
		switch {
		case !strings.HasPrefix(m.Name, "gpuledger_"):
			t.Errorf("%s: wrong prefix", m.Name)
		case !strings.HasSuffix(base, m.Unit):
			t.Errorf("%s: name does not end with the unit %s", m.Name, m.Unit)
		case m.TypeName() == "counter" && base == m.Name:
			t.Errorf("%s: counter without _total", m.Name)
		case m.Help == "" || !strings.HasSuffix(m.Help, "."):
			t.Errorf("%s: help %q is not a sentence", m.Name, m.Help)
		case strings.Contains(m.Help, "|"):
			t.Errorf("%s: help %q breaks the table in the docs", m.Name, m.Help)
		}
	}
}

func TestCatalogueLabels(t *testing.T) {
	used := make(map[string]bool)
	for _, m := range collector.Catalogue() {
		for _, l := range m.Labels {
			used[l] = true
		}
	}
	described := make(map[string]bool)
	for _, l := range collector.Labels() {
		if described[l.Name] {
			t.Errorf("label %s is described twice", l.Name)
		}
		described[l.Name] = true
	}
	if diff := cmp.Diff(used, described); diff != "" {
		t.Errorf("labels (-used +described):\n%s", diff)
	}
}

func TestStageLabel(t *testing.T) {
	var want []string
	for _, n := range stage.Names {
		want = append(want, string(n))
	}
	labels := collector.Labels()
	i := slices.IndexFunc(labels, func(l metric.Label) bool { return l.Name == "stage" })
	if diff := cmp.Diff(want, labels[i].Values); diff != "" {
		t.Errorf("stages (-package stage +catalogue):\n%s", diff)
	}
}

// TestCardinality counts the series that an additional object adds to a page. Examples of objects are GPUs, containers,
// processes, MIG devices, XID codes and stages. The numbers must equal the numbers in the docs.
func TestCardinality(t *testing.T) {
	more := func(page metric.Page, with, without *gpu.Snapshot) int {
		return count(t, page, with) - count(t, page, without)
	}
	bare := &gpu.Snapshot{Node: gpu.Node{Name: "gpu-node-17"}, Drivers: make([]gpu.Driver, 1), PCIGPUs: new(0), DriverGPUs: new(0)}
	main := func(with, without *gpu.Snapshot) int { return more(collector.MainPage, with, without) }
	onBoard := main(throttled(crowd(1, 0, 0), 2), throttled(crowd(1, 0, 0), 1))
	onGPU := main(crowdOfUnits(2, 1, 0), crowdOfUnits(1, 1, 0)) - main(crowd(2, 0, 0), crowd(1, 0, 0))
	unit := main(crowdOfUnits(1, 2, 0), crowdOfUnits(1, 1, 0)) - onGPU
	got := map[metric.Page]map[string]int{
		collector.MainPage: {
			"unit":                       unit,
			"unit and GPU":               onGPU,
			"process of a unit":          main(crowdOfUnits(1, 1, 3), crowdOfUnits(1, 1, 2)),
			"GPU and job in a container": main(withJobs(2), withJobs(1)) - unit,
			"node":                       count(t, collector.MainPage, bare),
			"GPU":                        more(collector.MainPage, crowd(2, 0, 0), crowd(1, 0, 0)),
			"container and GPU":          more(collector.MainPage, crowd(1, 3, 0), crowd(1, 2, 0)),
			"process":                    more(collector.MainPage, crowd(1, 1, 3), crowd(1, 1, 2)),
			"MIG instance":               more(collector.MainPage, withInstances(2), withInstances(1)),
			"MIG device":                 more(collector.MainPage, withMIG(2), withMIG(1)),
			"GPU and XID code seen":      more(collector.MainPage, withXIDs(2), withXIDs(1)),
			"GPU and fabric problem":     more(collector.MainPage, withProblems(2), withProblems(1)),
			"GPU and block":              more(collector.MainPage, withRAS(2), withRAS(1)),
			"GPU and fan":                more(collector.MainPage, withFans(2), withFans(1)),
			"stage":                      more(collector.MainPage, withStages(2), withStages(1)),

			"NVSwitch, SXID code and severity seen":  more(collector.MainPage, withSXIDs(2), withSXIDs(1)),
			"GPU and throttle cause seen":            main(throttled(crowd(1, 0, 0), 2), throttled(crowd(1, 0, 0), 1)),
			"container, GPU and throttle cause seen": main(throttled(crowd(1, 1, 0), 2), throttled(crowd(1, 1, 0), 1)) - onBoard,
			"unit, GPU and throttle cause seen":      main(throttled(crowdOfUnits(1, 1, 0), 2), throttled(crowdOfUnits(1, 1, 0), 1)) - onBoard,
		},
		collector.RecordPage: {
			"GPU":                   more(collector.RecordPage, crowd(2, 0, 0), crowd(1, 0, 0)),
			"pod and GPU":           more(collector.RecordPage, crowd(1, 3, 2), crowd(1, 2, 2)),
			"GPU and job in a pod":  more(collector.RecordPage, withJobs(2), withJobs(1)),
			"unit and GPU":          more(collector.RecordPage, crowdOfUnits(1, 3, 2), crowdOfUnits(1, 2, 2)),
			"namespace":             1,
			"GPU and XID code seen": more(collector.RecordPage, withXIDs(2), withXIDs(1)),

			"pod, GPU and throttle cause seen":  more(collector.RecordPage, throttled(crowd(1, 1, 0), 2), throttled(crowd(1, 1, 0), 1)),
			"unit, GPU and throttle cause seen": more(collector.RecordPage, throttled(crowdOfUnits(1, 1, 0), 2), throttled(crowdOfUnits(1, 1, 0), 1)),
		},
	}
	contract := map[metric.Page]map[string]int{collector.MainPage: {}, collector.RecordPage: {}}
	for _, m := range collector.Catalogue() {
		contract[m.Page][collector.Per(m)] += collector.Series(m)
	}
	if diff := cmp.Diff(contract, got); diff != "" {
		t.Errorf("additional series (-documented +counted):\n%s", diff)
	}
	if n := got[collector.MainPage]["container and GPU"]; n > 12 {
		t.Errorf("a container has %d series on a GPU, want at most 9, and 3 for its profile", n)
	}
	if n := count(t, collector.RecordPage, bare) + more(collector.RecordPage, withMIG(2), withMIG(1)); n > 0 {
		t.Errorf("a node without GPUs and a MIG device add %d series to the record, want 0", n)
	}
}

func count(t testing.TB, page metric.Page, s *gpu.Snapshot) int {
	t.Helper()
	families := gatherRecord(t, s)
	if page == collector.MainPage {
		families = gather(t, s, everything)
	}
	n := 0
	for _, mf := range families {
		n += len(mf.Metric)
	}
	return n
}

func withXIDs(n uint64) *gpu.Snapshot {
	s := crowd(1, 0, 0)
	for code := range n {
		s.GPUs[0].Events.Add(gpu.DriverEvent{Code: code, At: now})
	}
	return s
}

func withFans(n int) *gpu.Snapshot {
	s := crowd(1, 0, 0)
	r := s.GPUs[0].Reading
	for fan := range n {
		r.Details = append(r.Details, gpu.HealthValue{Metric: gpu.FanSpeed, Labels: []string{fmt.Sprint(fan)}, Value: 0.5})
	}
	return s
}

func withSXIDs(n uint64) *gpu.Snapshot {
	s := crowd(1, 0, 0)
	for code := range n {
		s.NVSwitches = append(s.NVSwitches, gpu.NVSwitchErrors{PCIBusID: "0000:c1:00.0", Code: code, Severity: gpu.SeverityFatal, Count: 1, Since: now})
	}
	return s
}

// throttled adds energy and time for the first throttle causes to every GPU and owner in s. The argument causes is the
// number of these causes.
func throttled(s *gpu.Snapshot, causes int) *gpu.Snapshot {
	for i := range s.GPUs {
		b := s.GPUs[i].Book
		for c := range causes {
			b.Throttled[c] = gpu.Throttled{Energy: 300_000, Time: time.Second}
			for j := range b.Accounts {
				b.Accounts[j].Throttled[c] = gpu.Throttled{Energy: 200_000, Time: 500 * time.Millisecond}
			}
		}
	}
	return s
}

func withProblems(n int) *gpu.Snapshot {
	s := crowd(1, 0, 0)
	for i := range n {
		s.GPUs[0].Fabric.Problems = append(s.GPUs[0].Fabric.Problems, gpu.FabricProblem{Name: fmt.Sprint("problem", i), Present: true})
	}
	return s
}

func withRAS(n int) *gpu.Snapshot {
	s := crowd(1, 0, 0)
	for i := range n {
		for _, kind := range []gpu.RASType{gpu.RASCorrectable, gpu.RASDeferred, gpu.RASUncorrectable} {
			s.GPUs[0].Reading.RASErrors = append(s.GPUs[0].Reading.RASErrors, gpu.RASErrors{Block: fmt.Sprint("block", i), Type: kind})
		}
	}
	return s
}

func withJobs(n int) *gpu.Snapshot {
	s := crowd(1, 1, 0)
	for i := range n {
		u := gpu.UnitAccount{Unit: gpu.Unit{Manager: "slurm", Name: fmt.Sprint(4711 + i)}, Opened: boot, Energy: 17}
		s.GPUs[0].Book.Accounts[0].Units = append(s.GPUs[0].Book.Accounts[0].Units, u)
	}
	return s
}

func withMIG(n int) *gpu.Snapshot {
	s := crowd(1, 0, 0)
	s.GPUs[0].Partitions = newMIG(n)
	return s
}

func withInstances(n int) *gpu.Snapshot {
	s := crowd(1, 0, 0)
	for i := range n {
		s.GPUs[0].Reading.InstanceProfiles = append(s.GPUs[0].Reading.InstanceProfiles, gpu.InstanceProfile{Instance: fmt.Sprint(i), Profile: profile()})
	}
	return s
}

func withStages(n int) *gpu.Snapshot {
	s := crowd(1, 0, 0)
	for _, name := range stage.Names[:n] {
		s.Stages = append(s.Stages, gpu.Stage{Name: string(name), LastSuccess: now})
	}
	return s
}
