//go:build e2e

package archive_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

// hotAMD returns the scenario "mi300x" with a board whose memory fails. From 10 s on, the board has a correctable error
// every 10 s. After three minutes, it has an uncorrectable error, and the driver retires eight pages. After 10 minutes,
// it has two deferred errors. After 12 minutes, it has an uncorrectable error in SRAM. From minute 14 to minute 26,
// heat limits the board's clocks for half of the time.
func hotAMD(t *testing.T) (sc simnode.Scenario, board simnode.GPU) {
	t.Helper()
	sc, err := simnode.Lookup("mi300x")
	check(t, err)
	once := func(c simnode.Condition, at time.Duration, by int64) simnode.Defect {
		return simnode.Defect{Condition: c, Span: simnode.Span{From: at}, By: by}
	}
	const step = 100 * time.Millisecond
	sc.GPUs[5].Defects = []simnode.Defect{
		{Condition: simnode.DRAMCorrectable, Span: simnode.Span{From: 10 * time.Second}, Every: 10 * time.Second, By: 1},
		once(simnode.DRAMUncorrectable, 3*time.Minute, 1),
		once(simnode.RowsUncorrectable, 3*time.Minute, 8),
		once(simnode.DRAMDeferred, 10*time.Minute, 2),
		once(simnode.SRAMUncorrectable, 12*time.Minute, 1),
		{Condition: simnode.HardwareThermal, Span: simnode.Span{From: 14 * time.Minute, Until: 26 * time.Minute}, Every: step, By: int64(step / 2)},
	}
	return sc, sc.GPUs[5]
}

// TestReportOfAMD checks the report about an AMD board with errors, retired pages and limited clocks. The exporter
// reads simulated files of the driver, Prometheus stores the scrapes, and the archive reads them. The expected numbers
// follow from the rates of hotAMD.
func TestReportOfAMD(t *testing.T) {
	t.Parallel()
	sc, board := hotAMD(t)
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := &patient{t: t, interval: 10 * time.Second, store: foldtest.NewStore(), now: gpu.Instant{Wall: noon.Add(-5 * time.Minute), Boot: 240 * time.Hour}}
	shutdown := p.boot(sc)
	p.run(sc.Node, board.UUID, noon.Add(25*time.Minute+time.Second))
	shutdown()
	server, folder := p.serve(noon), filepath.Join(t.TempDir(), "archive")
	succeed(t, "once", "--log.format=json", "--folder="+folder, "--folder.format=csv", "--store.url="+server,
		"--from="+noon.Add(-time.Hour).Format(time.RFC3339), "--until="+noon.Add(time.Hour).Format(time.RFC3339))
	// Heat limits the clocks for half of twelve minutes, which is a tenth of an hour. The last error occurs at the time
	// of the last reading, so this reading does not include it.
	want := "| UNCORRECTABLE | CORRECTABLE | RETIRED PAGES | REPLAYS | HOT HOURS |\n|---|---|---|---|---|\n| 4 | 179 | 8 | 0 | 0.10 |"
	for _, books := range []string{"--books=" + folder, "--store.url=" + server} {
		a := ask(t, "report", board.Serial, "--to=2026-03-01T13:00", books)
		_, section, _ := strings.Cut(a.out, "## Memory, links and clocks\n\n")
		section, _, _ = strings.Cut(section, "\n\n")
		if diff := cmp.Diff(want, section); diff != "" {
			t.Errorf("report %s: exit status %d (-scenario +report):\n%s\n%s%s", books, a.status, diff, a.out, a.errors)
		}
	}
}
