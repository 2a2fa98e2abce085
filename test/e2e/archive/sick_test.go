//go:build e2e

package archive_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/markdown"
	"github.com/gpuledger/gpuledger/test/program"
	prom "github.com/gpuledger/gpuledger/test/prometheus"
)

// patient contains a simulated node, its exporter with a simulated clock, and the scrapes of this exporter. The
// exporter reads the driver once per interval. A minute is a multiple of the interval.
type patient struct {
	t        *testing.T
	interval time.Duration
	library  string // path of the fake NVIDIA driver; empty if the node has AMD boards
	store    *foldtest.Store
	clock    sync.Mutex // held while now changes
	now      gpu.Instant
	dir      string
	world    *simnode.Node
	node     *app.Node
}

func (p *patient) boot(sc simnode.Scenario) (shutdown func()) {
	p.t.Helper()
	dir, err := os.MkdirTemp("", "node") // a short path, because it will contain a socket
	check(p.t, err)
	p.world, err = simnode.Open(dir, sc, p.now)
	check(p.t, err)
	if p.library != "" {
		for _, env := range p.world.Env() {
			name, value, _ := strings.Cut(env, "=")
			p.t.Setenv(name, value)
		}
	}
	cfg, err := app.Parse(append(p.world.Flags(), "--nvml.library="+p.library, "--nvml.call-timeout=5m"), os.Getenv)
	check(p.t, err)
	p.dir, p.node = dir, app.NewNode(cfg, func() gpu.Instant {
		p.clock.Lock()
		defer p.clock.Unlock()
		return p.now
	}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.node.NVML.Run(ctx) }()
	return func() {
		cancel()
		check(p.t, <-done)
		check(p.t, p.node.Source.Close(time.Second))
		check(p.t, p.node.Sampler.Close())
		check(p.t, p.world.Close())
		check(p.t, os.RemoveAll(dir))
	}
}

func (p *patient) advance(by time.Duration) {
	p.clock.Lock()
	defer p.clock.Unlock()
	p.now.Wall, p.now.Boot = p.now.Wall.Add(by), p.now.Boot+by
}

func (p *patient) truth(uuid string) map[simnode.Condition]int64 {
	p.t.Helper()
	rows, err := simnode.ReadTruth(filepath.Join(p.dir, "truth.json"))
	check(p.t, err)
	return rows[len(rows)-1].GPU(uuid).Health
}

// The XID errors arrive asynchronously, so tick waits for them before it advances the clock.
func (p *patient) tick(uuid string) {
	p.t.Helper()
	want := int64(0)
	for c, n := range p.truth(uuid) {
		if strings.HasPrefix(string(c), "xid_") {
			want += n
		}
	}
	check(p.t, p.node.Mapper.Refresh(p.t.Context()))
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		p.node.Sampler.Tick(p.t.Context())
		got := int64(0)
		for _, g := range p.node.Sampler.Latest().GPUs {
			if g.UUID == uuid {
				got = int64(g.Events.Count)
			}
		}
		if got >= want {
			return
		}
	}
	p.t.Fatalf("fewer than %d XID errors within 5 minutes", want)
}

// run scrapes every minute, with the labels of the shipped scrape configuration.
func (p *patient) run(node, uuid string, until time.Time) {
	p.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector.NewRecord(p.node.Sampler.Latest))
	target := []string{"cluster", "east", "job", "gpuledger-record", "instance", node}
	for ; p.now.Wall.Before(until); p.step() {
		p.tick(uuid)
		if p.now.Wall.Second() != 0 {
			continue
		}
		p.store.Add(p.now.Wall, 1, "up", append(target, "node", node)...)
		families, err := registry.Gather()
		check(p.t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				labels := append([]string(nil), target...)
				for name, value := range exposition.Labels(m) {
					labels = append(labels, name, value)
				}
				p.store.Add(p.now.Wall, exposition.Value(m), f.GetName(), labels...)
			}
		}
	}
}

func (p *patient) step() {
	p.t.Helper()
	p.advance(p.interval)
	check(p.t, p.world.Step(p.now))
}

func spareOf(t *testing.T, sc simnode.Scenario) simnode.Scenario {
	t.Helper()
	spare, err := sc.On(simnode.Machine{Boot: 1, Boards: map[int]simnode.Board{1: {Machine: 9, Position: 1}}})
	check(t, err)
	spare.Events, spare.GPUs[1].Defects = nil, nil
	return spare
}

// These are the numbers of errors in the scenario "sick", calculated from its rates. Correctable errors occur every 10
// s from 10 s on. Uncorrectable errors occur at minutes 6, 11, 16 and 21, and one in SRAM at minute 15. NVLink has
// three CRC errors per second from minute 1 on, a replay every 20 s from minute 2 on, and a recovery every minute from
// minute 8 on. The board is lost at minute 22. The scenario begins ten minutes before a full hour.
var (
	sickTotal = map[string]int64{"uncorrectable": 4 + 1, "lifetime_uncorrectable": 5, "correctable": 131, "low_memory_banks": 1, "pcie_replays": 0, "nvlink_errors": 3*1260 + 60 + 14}
	sickHours = map[string][2]string{
		"dram_correctable": {"59", "72"}, "dram_uncorrectable": {"1", "3"}, "sram_uncorrectable": {"0", "1"}, "lifetime_uncorrectable": {"1", "5"},
		"low_memory_banks": {"1", "1"}, "nvlink_errors": {"1646", "2208"}, "recovery_action": {"reset", "reset"}, "losses": {"0", "1"},
		"xids": {"154=1 48=1 63=1 74=1", "79=1 94=1"}, "remapped_correctable": {"3", "0"}, "remapped_uncorrectable": {"1", "0"},
	}
)

// TestTrace follows the board of the scenario "sick" from its first error to its replacement, with the commands in
// docs/health.md. The exporter reads the simulated driver, Prometheus stores the scrapes and evaluates the recording
// rules, and the archive reads them.
func TestTrace(t *testing.T) {
	library, err := fakes.Compile(t.TempDir())
	check(t, err)
	sc, err := simnode.Lookup("sick")
	check(t, err)
	spare, board, noon := spareOf(t, sc), sc.GPUs[1], time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := &patient{t: t, interval: 15 * time.Second, library: library, store: foldtest.NewStore(), now: gpu.Instant{Wall: noon.Add(-10 * time.Minute), Boot: 240 * time.Hour}}
	shutdown := p.boot(sc)
	p.run(sc.Node, board.UUID, noon.Add(20*time.Minute))
	h := p.truth(board.UUID)
	truth := map[string]int64{
		"uncorrectable": h["dram_uncorrectable"] + h["sram_uncorrectable"], "lifetime_uncorrectable": h["dram_uncorrectable"] + h["sram_uncorrectable"],
		"correctable": h["dram_correctable"], "low_memory_banks": h["banks_low"], "pcie_replays": 0, "nvlink_errors": h["link_crc_errors"] + h["link_replays"] + h["link_recoveries"],
	}
	if diff := cmp.Diff(sickTotal, truth); diff != "" {
		t.Errorf("the truth of the scenario (-rates +truth):\n%s", diff)
	}
	shutdown()
	p.advance(10 * time.Minute)
	shutdown = p.boot(spare)
	p.run(sc.Node, spare.GPUs[1].UUID, noon.Add(3*time.Hour+10*time.Minute))
	shutdown()

	server, folder := p.serve(noon), filepath.Join(t.TempDir(), "archive")
	checkRules(t, server, board, noon)
	succeed(t, "once", "--log.format=json", "--folder="+folder, "--folder.format=csv", "--store.url="+server,
		"--from="+noon.Add(-time.Hour).Format(time.RFC3339), "--until="+noon.Add(3*time.Hour).Format(time.RFC3339))
	checkHours(t, folder, board)
	place := []string{"SERIAL=" + board.Serial, "PATH=" + filepath.Dir(binary()) + ":" + os.Getenv("PATH")}
	documentedTrace(t, append(place, "GPULEDGER_BOOKS="+folder), true)
	documentedTrace(t, append(place, "GPULEDGER_STORE_URL="+server), false)
	for _, books := range []string{"--books=" + folder, "--store.url=" + server} {
		a := ask(t, "errors", board.Serial, "-o", "json", "--to=2026-03-01T15:00", books)
		if a.status != 0 || len(a.Rows) != 1 {
			t.Fatalf("errors %s: exit status %d\n%s%s", books, a.status, a.out, a.errors)
		}
		for name, want := range sickTotal {
			if got := a.Rows[0][name]; got != float64(want) {
				t.Errorf("errors %s: %s is %v, want %d", books, name, got, want)
			}
		}
	}
}

// serve also loads the results of the recording rules.
func (p *patient) serve(noon time.Time) string {
	server := loaded(p.t, prom.Env, program.OpenFor(p.t), "store", p.store.OpenMetrics())
	for _, file := range []string{"placement.yaml", "energy.yaml"} {
		check(p.t, server.Evaluate(p.t.Context(), "../../../dashboards/rules/"+file, noon.Add(-time.Hour), noon.Add(4*time.Hour)))
	}
	return started(p.t, server).URL()
}

func checkRules(t *testing.T, server string, board simnode.GPU, noon time.Time) {
	t.Helper()
	for query, want := range map[string]prom.Answer{
		`sum(sum_over_time(last_over_time(gpuledger:board_losses:increase1h{serial="%s"}[59m])[5h:1h] offset -61m))`: {Want: map[string]float64{"": 1}},
		`sum by (xid) (sum_over_time(last_over_time(gpuledger:board_xid_errors:increase1h{serial="%s"}[59m])[5h:1h] offset -61m))`: {
			By: []string{"xid"}, Want: map[string]float64{"48": 1, "63": 1, "74": 1, "79": 1, "94": 1, "154": 1},
		},
		`group by (pci_bus_id) (present_over_time(gpuledger:placement_info:present1h{serial="%s"}[4h]))`: {By: []string{"pci_bus_id"}, Want: map[string]float64{board.Bus: 1}},
	} {
		got, err := prom.Query(t.Context(), server, fmt.Sprintf(query, board.Serial), noon.Add(3*time.Hour))
		check(t, err)
		for _, difference := range want.Differences(got) {
			t.Errorf("%s: %s", query, difference)
		}
	}
}

// The full hour divides the scenario, so its errors are in two hours.
func checkHours(t *testing.T, folder string, board simnode.GPU) {
	t.Helper()
	got := make(map[string][2]string)
	for _, row := range rows(t, folder, "gpu_hours") {
		i := map[string]int{"2026-03-01T11:00:00.000Z": 0, "2026-03-01T12:00:00.000Z": 1}
		n, listed := i[row["hour"]]
		if row["uuid"] != board.UUID {
			continue
		}
		if !listed && row["scrapes"] != "0" {
			t.Errorf("the board has scrapes in the hour %s", row["hour"])
		}
		for name := range sickHours {
			if both := got[name]; listed {
				both[n] = row[name]
				got[name] = both
			}
		}
	}
	if diff := cmp.Diff(sickHours, got); diff != "" {
		t.Errorf("filed hours (-scenario +filed):\n%s", diff)
	}
}

// afterwards is a shell function for the documented commands. It sets their time to shortly after the replacement of
// the board.
const afterwards = `gpuledger-archive() {
	case $1 in where) set -- "$@" --at=2026-03-01T15:00 ;; *) set -- "$@" --to=2026-03-01T15:00 ;; esac
	command gpuledger-archive "$@"
}
`

// If -update is set, documentedTrace writes the output to the page. It compares notices only if notices is set, because
// they differ between the archive and Prometheus.
func documentedTrace(t *testing.T, env []string, notices bool) {
	t.Helper()
	const file, heading = "../../../docs/health.md", "## Trace a board that fails slowly"
	text := text(t, file)
	section, err := markdown.Section(text, heading)
	check(t, err)
	var session strings.Builder
	for _, c := range markdown.Commands(section) {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", afterwards+c)
		cmd.Env, cmd.Dir = append(os.Environ(), env...), t.TempDir()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", c, err, out)
		}
		fmt.Fprintf(&session, "$ %s\n%s", c, out)
	}
	_, block, _ := strings.Cut(section, "```console\n")
	block, _, _ = strings.Cut(block, "```")
	if *update && notices {
		check(t, os.WriteFile(file, []byte(strings.Replace(text, block, session.String(), 1)), 0o644))
		return
	}
	want, got := block, session.String()
	if !notices {
		want, got = withoutNotices(want), withoutNotices(got)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-documented +printed):\n%s", file, diff)
	}
}

func withoutNotices(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "! ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
