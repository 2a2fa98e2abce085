package app_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/golden"
)

// scrapeInterval is the interval in the shipped scrape configurations.
const scrapeInterval = 15 * time.Second

type scraped map[string]float64

func (s scraped) of(uuid, series string) (value float64, ok bool) {
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	for id, v := range s {
		own := strings.HasPrefix(id, "gpuledger_"+name+"{") && strings.Contains(id, fmt.Sprintf("UUID=%q", uuid))
		for label := range strings.SplitSeq(labels, ",") {
			own = own && strings.Contains(id, label)
		}
		if own {
			return v, true
		}
	}
	return 0, false
}

type patient struct {
	*bench
	pages   []prometheus.Collector // the collectors are created once, because that takes longer than a scrape
	scrapes []scraped
}

// awaitXIDs reads the node until a number of XID errors have arrived. In the meantime, the clock is stopped.
func (p *patient) awaitXIDs(n uint64) {
	p.t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		var counted uint64
		for _, g := range p.gpus() {
			counted += g.Events.Count
		}
		if counted >= n {
			return
		}
		p.node.Sampler.Tick(p.t.Context())
	}
	p.t.Fatalf("fewer than %d XID errors within 5 minutes", n)
}

// scrape reads the node and adds its pages to the scrapes. While XID errors arrive, the clock is stopped.
func (p *patient) scrape() {
	p.t.Helper()
	if err := p.node.Mapper.Refresh(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	p.node.Sampler.Tick(p.t.Context())
	p.awaitXIDs(p.truth("xid_"))
	found := make(scraped)
	var page strings.Builder
	for _, c := range p.pages {
		page.WriteString(p.render(c))
	}
	for line := range strings.Lines(page.String()) {
		if line[0] == '#' {
			continue
		}
		line = strings.TrimSpace(line)
		space := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[space+1:], 64)
		if err != nil {
			p.t.Fatal(err)
		}
		found[line[:space]] = value
	}
	p.scrapes = append(p.scrapes, found)
}

func (p *patient) wait() {
	p.t.Helper()
	p.advance(scrapeInterval)
	if err := p.world.Step(p.now); err != nil {
		p.t.Fatal(err)
	}
}

func (p *patient) row() simnode.Truth {
	p.t.Helper()
	rows, err := simnode.ReadTruth(filepath.Join(p.world.Dir(), "truth.json"))
	if err != nil || len(rows) != 1 {
		p.t.Fatalf("%d rows: %v", len(rows), err)
	}
	return rows[0]
}

// truth adds up the simulated counts of all conditions whose names begin with the prefix, over all GPUs.
func (p *patient) truth(prefix string) (sum uint64) {
	p.t.Helper()
	for _, g := range p.row().GPUs {
		for c, n := range g.Health {
			if strings.HasPrefix(string(c), prefix) {
				sum += uint64(n)
			}
		}
	}
	return sum
}

// reports lists, for each simulated condition, the series that report the condition, and the factor between the
// simulated value and the value of the series. The names and labels are from docs/metrics.md, and the fields of each
// generation are from nvml.h.
var reports = map[simnode.Condition][]report{
	"dram_correctable":    {{`gpu_ecc_errors_total{error="correctable",memory="dram"}`, 1}, {`gpu_ecc_lifetime_errors{error="correctable",memory="dram"}`, 1}},
	"dram_uncorrectable":  {{`gpu_ecc_errors_total{error="uncorrectable",memory="dram"}`, 1}, {`gpu_ecc_lifetime_errors{error="uncorrectable",memory="dram"}`, 1}},
	"sram_uncorrectable":  {{`gpu_ecc_errors_total{error="uncorrectable",memory="sram"}`, 1}, {`gpu_ecc_lifetime_errors{error="uncorrectable",memory="sram"}`, 1}},
	"row_pending":         {{`gpu_row_remap_pending{}`, 1}},
	"rows_correctable":    {{`board_remapped_rows_total{error="correctable"}`, 1}},
	"rows_uncorrectable":  {{`board_remapped_rows_total{error="uncorrectable"}`, 1}},
	"banks_max":           {{`gpu_memory_banks{spare_rows="max"}`, 1}},
	"banks_high":          {{`gpu_memory_banks{spare_rows="high"}`, 1}},
	"banks_partial":       {{`gpu_memory_banks{spare_rows="partial"}`, 1}},
	"banks_low":           {{`gpu_memory_banks{spare_rows="low"}`, 1}},
	"link_replays":        {{`gpu_nvlink_errors_total{nvlink_error="replay"}`, 1}},
	"link_recoveries":     {{`gpu_nvlink_errors_total{nvlink_error="recovery"}`, 1}},
	"link_crc_errors":     {{`gpu_nvlink_errors_total{nvlink_error="crc_flit"}`, 1}},
	"links_inactive":      {{`gpu_nvlink_links{link_state="inactive"}`, 1}},
	"hardware_thermal_ns": {{`gpu_clock_limited_seconds_total{clock_limit="hardware_thermal"}`, 1e9}},
	"power_brake_ns":      {{`gpu_clock_limited_seconds_total{clock_limit="power_brake"}`, 1e9}},
	"recovery_action":     {{`gpu_recovery_action_info{action="reset"}`, 1}},
	"xid_48":              {{`board_xid_errors_total{xid="48"}`, 1}},
	"xid_63":              {{`board_xid_errors_total{xid="63"}`, 1}},
	"xid_74":              {{`board_xid_errors_total{xid="74"}`, 1}},
	"xid_79":              {{`board_xid_errors_total{xid="79"}`, 1}},
	"xid_94":              {{`board_xid_errors_total{xid="94"}`, 1}},
	"xid_154":             {{`board_xid_errors_total{xid="154"}`, 1}},
}

type report struct {
	series string // name and labels of the series, without the name's prefix and the labels that identify the GPU
	unit   float64
}

// noSeries contains the simulated conditions that no series counts. They change a gauge that the test does not check.
var noSeries = []simnode.Condition{simnode.ClockReduction, simnode.Heat}

// otherReports contains entries that replace entries of reports for some GPU generations. If the list for a condition
// is nil, GPUs of this generation do not report the condition.
var otherReports = map[simnode.Generation]map[simnode.Condition][]report{
	simnode.Turing: {
		"row_pending":        {{`gpu_retired_pages_pending{}`, 1}},
		"rows_correctable":   {{`gpu_retired_pages{error="correctable"}`, 1}},
		"rows_uncorrectable": {{`gpu_retired_pages{error="uncorrectable"}`, 1}},
		"banks_max":          nil, "banks_high": nil, "banks_partial": nil, "banks_low": nil,
		"link_replays": nil, "link_recoveries": nil, "link_crc_errors": nil, "links_inactive": nil,
	},
	simnode.Blackwell: {
		"link_replays":    nil,
		"link_recoveries": {{`gpu_nvlink_errors_total{nvlink_error="recovery_failed"}`, 1}},
		"link_crc_errors": {{`gpu_nvlink_errors_total{nvlink_error="symbol"}`, 1}},
	},
}

// check compares the last page with the simulated conditions of a GPU. A series that the GPU's generation does not
// report must be absent.
func (p *patient) check(g *simnode.GPUTruth, of simnode.Generation) {
	p.t.Helper()
	want, got := make(scraped), make(scraped)
	page := p.scrapes[len(p.scrapes)-1]
	for condition, n := range g.Health {
		list, known := otherReports[of][condition]
		if !known {
			list = reports[condition]
		}
		if !known && len(list) == 0 && !slices.Contains(noSeries, condition) {
			p.t.Errorf("the test does not know a series for %s", condition)
		}
		for _, r := range list {
			want[r.series] = float64(n) / r.unit
		}
		if known && list == nil {
			list = reports[condition]
		}
		for _, r := range list {
			if value, ok := page.of(g.UUID, r.series); ok {
				got[r.series] = value
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Errorf("%s of generation %v (-truth +page):\n%s", g.UUID, of, diff)
	}
}

func newPatient(t *testing.T, name string, of simnode.Generation) *patient {
	t.Helper()
	sc, err := simnode.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sc.GPUs {
		sc.GPUs[i].Generation = of
	}
	p := &patient{bench: benchOf(t, sc, false)}
	latest := p.node.Sampler.Latest
	p.pages = []prometheus.Collector{collector.New(latest, p.cfg.Collector), collector.NewRecord(latest)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.node.NVML.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

// TestSick checks, for each generation of GPUs, that each simulated count and state is on the page. It also writes the
// series that the alerts query and compares them with golden files. test/e2e/rules evaluates the alerts on these files.
func TestSick(t *testing.T) {
	tests := []struct {
		scenario string
		of       simnode.Generation
		// The test compares the page of the last scrape before checked.
		checked time.Duration
		until   time.Duration
	}{
		{"sick", simnode.Hopper, 22 * time.Minute, 30 * time.Minute},
		{"sick", simnode.Turing, 16 * time.Minute, 0},
		{"sick", simnode.Ampere, 16 * time.Minute, 0},
		{"sick", simnode.Blackwell, 16 * time.Minute, 0},
		{"throttled", simnode.Hopper, 20 * time.Minute, 24 * time.Minute},
	}
	for _, tt := range tests {
		if testing.Short() && tt.until == 0 {
			continue
		}
		t.Run(fmt.Sprint(tt.scenario, tt.of), func(t *testing.T) {
			p := newPatient(t, tt.scenario, tt.of)
			for at := time.Duration(0); at < max(tt.checked, tt.until); at += scrapeInterval {
				p.scrape()
				if at+scrapeInterval == tt.checked {
					for _, g := range p.row().GPUs {
						p.check(&g, tt.of)
					}
				}
				p.wait()
			}
			if tt.until > 0 {
				golden.Check(t, tt.scenario+".series", []byte(p.series(tt.scenario+"-0")))
			}
		})
	}
}

// TestThrottledFindings compares the findings in the scenario "throttled" with the description of the scenario. From
// minute 1 to minute 17, heat limits the third GPU for 90 % of the time. In the same minutes, the power brake limits
// the fourth GPU for 70 % of the time. The clocks of these two GPUs are at least 800 MHz lower than the clocks of the
// other two GPUs.
func TestThrottledFindings(t *testing.T) {
	p := newPatient(t, "throttled", simnode.Hopper)
	found := make(map[time.Duration][]string)
	for at := time.Duration(0); at <= 28*time.Minute; at += scrapeInterval {
		p.scrape()
		if at == 9*time.Minute || at == 14*time.Minute || at == 28*time.Minute {
			found[at] = []string{}
			for i, g := range health.New(p.node.Sampler.Latest(), p.now).GPUs {
				for _, e := range g.Evidence {
					limit, _, _ := strings.Cut(e.Detail, ",")
					if e.Code == "clock_low" {
						limit = ""
					}
					found[at] = append(found[at], strings.TrimSpace(fmt.Sprint(i, " ", e.Code, " ", limit)))
				}
			}
		}
		p.wait()
	}
	want := map[time.Duration][]string{
		9 * time.Minute:  {}, // a finding needs ten minutes of readings
		14 * time.Minute: {"2 throttled hardware_thermal", "2 clock_low", "3 throttled power_brake", "3 clock_low"},
		28 * time.Minute: {}, // the limits ended more than ten minutes ago
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

var queried = regexp.MustCompile(`gpuledger_\w+`)

// series returns those scraped series that the alerts query. It uses promtool's format, but with a tab before the
// values.
func (p *patient) series(node string) string {
	p.t.Helper()
	rules, err := os.ReadFile("../../dashboards/rules/alerts.yaml")
	if err != nil {
		p.t.Fatal(err)
	}
	metrics := make(map[string]bool)
	for _, name := range queried.FindAllString(string(rules), -1) {
		metrics[name] = true
	}
	all := make(map[string]bool)
	for _, s := range p.scrapes {
		for name := range s {
			if metric, _, _ := strings.Cut(name, "{"); metrics[metric] && !strings.Contains(name, `stage="xid"`) { // omits the stage xid, whose values depend on real time
				all[name] = true
			}
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		values := make([]*float64, len(p.scrapes))
		for i, s := range p.scrapes {
			if v, ok := s[name]; ok {
				values[i] = &v
			}
		}
		if !strings.Contains(name, `node="`) { // add the target label, which the record already contains
			metric, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
			name = metric + "{" + strings.TrimPrefix(labels+",", ",") + fmt.Sprintf("node=%q}", node)
		}
		fmt.Fprintf(&b, "%s\t%s\n", name, strings.Join(runs(values), " "))
	}
	return b.String()
}

// runs writes samples in promtool's notation. In this notation, 1+2x3 means 1 3 5 7, and stale ends a series.
func runs(values []*float64) (out []string) {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	for i := 0; i < len(values); {
		if values[i] == nil {
			n := i
			for n < len(values) && values[n] == nil {
				n++
			}
			if i > 0 {
				out, i = append(out, "stale"), i+1
			}
			if n > i {
				out = append(out, fmt.Sprintf("_x%d", n-i))
			}
			i = n
			continue
		}
		first, n := *values[i], 0
		for i+n+1 < len(values) && values[i+n+1] != nil && *values[i+n+1]-*values[i+n] == *values[min(i+1, len(values)-1)]-first {
			n++
		}
		switch {
		case n < 2:
			out, i = append(out, number(first)), i+1
		default:
			by := *values[i+1] - first
			sign := "+"
			if by < 0 {
				sign, by = "-", -by
			}
			out, i = append(out, number(first)+sign+number(by)+"x"+strconv.Itoa(n)), i+n+1
		}
	}
	return out
}
