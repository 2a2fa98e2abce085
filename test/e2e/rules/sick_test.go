//go:build e2e

package rules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// An alert begins at the first evaluation at which it fires.
type begun struct {
	alert, severity string
	gpu             int // position of the GPU in the scenario
	at              time.Duration
}

const scrapeInterval = 15 * time.Second

func ms(minutes, seconds int) time.Duration {
	return time.Duration(minutes)*time.Minute + time.Duration(seconds)*time.Second
}

// sickBoards lists the alerts for simulated nodes with a sick board, in the order of their start. Each time follows
// from the scenario's description: the next scrape shows a change, and then the alert waits for its "for" duration.
//
// If a GPU is throttled for a part p of the time since minute 1, the throttled time reaches half of the last ten
// minutes after 300 s / p. The GPU with the pending remap is lost before GPULedgerRowRemapPending fires. Two GPUs have
// clocks of 983 and 1083 MHz, and two others have 1883 MHz. Clocks are averaged over ten minutes, so the first clock
// falls below four fifths of the median at minute 3. The second clock falls below this limit at minute 5.
var sickBoards = map[string][]begun{
	"sick": {
		{"GPULedgerXID", "warning", 1, ms(2, 15)},
		{"GPULedgerLinkErrors", "notice", 1, ms(2, 15)},
		{"GPULedgerSpareRowsLow", "notice", 1, ms(4, 15)},
		{"GPULedgerMemoryErrors", "warning", 1, ms(6, 15)},
		{"GPULedgerLinkDown", "warning", 1, ms(18, 15)},
		{"GPULedgerGPULost", "critical", 1, ms(27, 15)},
	},
	"throttled": {
		{"GPULedgerClockLow", "warning", 2, ms(8, 0)},
		{"GPULedgerClockLow", "warning", 3, ms(10, 0)},
		{"GPULedgerGPUThrottled", "warning", 2, ms(11, 45)},
		{"GPULedgerGPUThrottled", "warning", 3, ms(13, 15)},
	},
}

// TestSickBoards evaluates the alerts on series that the exporter served for simulated nodes (internal/app, TestSick).
// Each alert must begin at the expected time. No other alert may fire.
func TestSickBoards(t *testing.T) {
	for name, want := range sickBoards {
		t.Run(name, func(t *testing.T) {
			sc, err := simnode.Lookup(name)
			check(t, err)
			series := seriesOf(t, name)
			all := make(map[string]float64)
			var tests []expressionTest
			for _, b := range want {
				uuid := sc.GPUs[b.gpu].UUID
				labels := fmt.Sprintf("{UUID=%q, alertname=%q, severity=%q}", uuid, b.alert, b.severity)
				all[labels] = 1
				expr := fmt.Sprintf(`group by (UUID, alertname, severity) (ALERTS{alertstate="firing", alertname=%q, UUID=%q})`, b.alert, uuid)
				tests = append(tests, expect(expr, b.at-scrapeInterval, nil), expect(expr, b.at, map[string]float64{labels: 1}))
			}
			tests = append(tests, expect(`group by (UUID, alertname, severity) (count_over_time(ALERTS{alertstate="firing"}[1h]))`, 29*time.Minute, all))
			var files []string
			for _, file := range []string{"alerts.yaml", "placement.yaml"} {
				file, err := filepath.Abs(rules(file))
				check(t, err)
				files = append(files, file)
			}
			runTests(t, files, map[string]any{"evaluation_interval": scrapeInterval.String()}, []testGroup{{
				"interval": scrapeInterval.String(), "input_series": series, "promql_expr_test": tests,
			}})
		})
	}
}

func seriesOf(t *testing.T, scenario string) (series []map[string]string) {
	t.Helper()
	text, err := os.ReadFile("../../../internal/app/testdata/" + scenario + ".series")
	check(t, err)
	for line := range strings.Lines(string(text)) {
		name, values, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			t.Fatalf("no values: %q", line)
		}
		series = append(series, map[string]string{"series": name, "values": values})
	}
	return series
}
