//go:build e2e

package rules_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/test/promdoc"
)

// TestXIDsOfMonth checks that the query in the guide for returning boards counts every XID error once. There is an
// error before a scrape outage, an error in the outage, and an error after a reboot that restarts the counter.
func TestXIDsOfMonth(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/runbooks/rma.md")
	check(t, err)
	var queries []string
	for _, q := range promdoc.Blocks(string(guide)) {
		if strings.Contains(q, "[30d:1h]") {
			queries = append(queries, strings.ReplaceAll(q, "$serial", "S1"))
		}
	}
	if len(queries) != 1 {
		t.Fatalf("the guide has %d queries about a month, want 1", len(queries))
	}
	errors := func(xid, values string) map[string]string {
		return map[string]string{"series": `gpuledger_board_xid_errors_total{serial="S1",node="a",UUID="GPU-1",xid="` + xid + `"}`, "values": values}
	}
	promtoolTest(t, map[string]any{"evaluation_interval": "1h"}, []testGroup{{
		"interval": "5m",
		"input_series": []map[string]string{
			errors("79", "0x30 1x30 _x40 2x30 _x5 0x20 1x30"),
			errors("48", "_x60 1x130"),
		},
		"promql_expr_test": []expressionTest{expect(queries[0], 15*time.Hour, map[string]float64{
			`{serial="S1",xid="79"}`: 3, `{serial="S1",xid="48"}`: 1,
		})},
	}})
}
