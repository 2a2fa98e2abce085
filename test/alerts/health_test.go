package alerts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/health"
)

var matched = regexp.MustCompile(`xid=~"([^"]+)"`)

// TestHealthRules checks that every alert in the table of advice exists. GPULedgerXID must fire for exactly the XID
// errors that the table assigns to it.
func TestHealthRules(t *testing.T) {
	all, _ := read(t)
	var xids *regexp.Regexp
	var names []string
	for _, a := range all {
		names = append(names, a.Alert)
		if m := matched.FindStringSubmatch(a.Expr); m != nil && a.Alert == "GPULedgerXID" {
			xids = regexp.MustCompile("^(?:" + m[1] + ")$")
		}
	}
	want := make(map[uint64]bool)
	for _, r := range health.Rules {
		if r.Alert != "" && !slices.Contains(names, r.Alert) {
			t.Errorf("%s: alert %s does not exist", r.Code, r.Alert)
		}
		want[r.XID] = want[r.XID] || r.Alert == "GPULedgerXID"
	}
	for code := range uint64(1000) {
		if got := xids.MatchString(fmt.Sprint(code)); got != want[code] {
			t.Errorf("XID %d fires GPULedgerXID: %v, the table of advice assigns it: %v", code, got, want[code])
		}
	}
}

// TestSlowdowns checks that the finding about throttled GPUs and the alert name the same reasons.
func TestSlowdowns(t *testing.T) {
	all, _ := read(t)
	want := `clock_limit=~"` + strings.Join(gpu.Slowdowns[:], "|") + `"`
	for _, a := range all {
		if a.Alert == "GPULedgerGPUThrottled" && !strings.Contains(a.Expr, want) {
			t.Errorf("the alert does not contain %s: %s", want, a.Expr)
		}
	}
}

// row matches a row of the runbook's table: codes, meaning, advice, action.
var row = regexp.MustCompile(`(?m)^\| ([\d, to]+) \|[^|]+\| (\w+) \|`)

func TestXIDRunbook(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(runbooks, "gpuledger-xid.md"))
	if err != nil {
		t.Fatal(err)
	}
	got, want := make(map[uint64]string), make(map[uint64]string)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		for _, code := range codes(t, m[1]) {
			got[code] = m[2]
		}
	}
	for _, r := range health.Rules {
		if r.XID != 0 {
			want[r.XID] = string(r.Advice)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("advice of XID errors (-table +runbook):\n%s", diff)
	}
}

// codes returns the codes in a string such as "63", "119, 120" or "144 to 150".
func codes(t *testing.T, text string) (out []uint64) {
	t.Helper()
	first, last, isRange := strings.Cut(text, " to ")
	for s := range strings.SplitSeq(first, ", ") {
		out = append(out, number(t, s))
	}
	for isRange && out[len(out)-1] < number(t, last) {
		out = append(out, out[len(out)-1]+1)
	}
	return out
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
