package ask_test

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const fleetHours = 26

// fleet returns a store with the samples of a simulated fleet and with the results of recording rules. truth is the
// energy of all boards in mJ.
func fleet(t *testing.T, change func(*foldtest.Store)) (url string, samples *foldtest.Store, truth int64) {
	t.Helper()
	samples = foldtest.NewStore()
	f := foldtest.NewFleet(samples, october, 5, 3, "cluster", "east")
	f.RunRuled(fleetHours)
	for _, n := range f.Nodes {
		truth += n.Board.Energy
	}
	if change != nil {
		change(samples)
	}
	server := httptest.NewServer(foldtest.API{Store: samples})
	t.Cleanup(server.Close)
	return server.URL, samples, truth
}

// fileFleet writes the hours of a fleet to a folder. change may modify each hour.
func fileFleet(t *testing.T, samples *foldtest.Store, change func(n int, h *table.Hour)) (folder string) {
	t.Helper()
	return bookstest.File(t, "csv", hourly(fleetHours, func(n int, h *table.Hour) {
		in := samples.Input(h.Start)
		in.Cluster = h.Cluster
		folded, err := fold.Fold(in)
		check(t, err)
		if *h = *folded; change != nil {
			change(n, h)
		}
	})...)
}

// A rule records the sums of an hour 40 minutes after its end.
func resultAt(hour int) time.Time {
	return october.Add(time.Duration(hour)*time.Hour + 100*time.Minute)
}

const namespaceRule = "gpuledger:namespace_energy_joules:increase1h"

var fleetTime = []string{"--from=2026-10-01", "--to=2026-10-02T02"}

// In TestVerifyRules, the results of a store's rules are wrong. verify must not use them, but read the samples. A
// statement from the rules must fail. The error must contain the hour and the namespace.
func TestVerifyRules(t *testing.T) {
	url, _, truth := fleet(t, func(s *foldtest.Store) {
		s.Scale(namespaceRule, 5, resultAt(7))
		for i := range 400 { // more than 10,000 GPU hours, so that statements read rules
			s.Add(october.Add(90*time.Minute), 1, "gpuledger_placement_info", "cluster", "east", "node", "spare", "UUID", fmt.Sprint("GPU-spare-", i))
		}
	})
	ask := func(args ...string) result { return run(t, append(append(args, "--store.url="+url), fleetTime...)...) }
	for _, read := range []string{"auto", "samples"} {
		ask("verify", "--store.read="+read, "-o", "csv").has(0, fmt.Sprintf(",%d,%d,", truth, truth), ",0,true\n")
	}
	ask("verify", "--store.read=rules").has(1, "rules cannot be verified")
	for _, by := range []string{"namespace", "cluster", "user"} {
		for _, read := range []string{"auto", "rules"} {
			r := ask("statement", "--by="+by, "--store.read="+read)
			r.prints(1, "")
			r.has(1, "hour 2026-10-01T07:00:00Z of east: the rules charge", "the largest account is namespace ml")
		}
	}
	url, _, truth = fleet(t, nil)
	ask("statement", "--by=cluster", "--store.read=rules", "-o", "csv").has(0, fmt.Sprintf("total,TOTAL,%d,", truth))
}

// TestProve checks that verify compares the sums of samples, rules and archives for each day and each namespace or
// manager. Equal totals are not sufficient.
func TestProve(t *testing.T) {
	right, samples, truth := fleet(t, nil)
	folder := fileFleet(t, samples, nil)
	mistaken := func(change func(*foldtest.Store)) string {
		url, _, _ := fleet(t, change)
		return url
	}
	otherPod := fileFleet(t, samples, func(n int, h *table.Hour) {
		for i := range h.Charges {
			if c := &h.Charges[i]; n == 25 && c.Namespace != "" {
				c.Namespace = "other"
			}
		}
	})
	for name, tt := range map[string]struct {
		url    string
		more   []string
		status int
		rows   int
		want   string // expected notice
	}{
		"samples and rules":           {right, nil, 0, 2, ""},
		"samples, rules and archives": {right, []string{"--books=" + folder, "--books=" + folder}, 0, 4, ""},
		"five times":                  {mistaken(func(s *foldtest.Store) { s.Scale(namespaceRule, 5, resultAt(25)) }), nil, 1, 2, "east, 2026-10-02, namespace ml: rules has"},
		"another namespace": {mistaken(func(s *foldtest.Store) {
			s.Scale(namespaceRule, 0.5, october)
			s.Double(namespaceRule, "namespace", "other")
		}), nil, 1, 2, "east, 2026-10-01, namespace other: rules has"},
		"a board": {mistaken(func(s *foldtest.Store) {
			for i, excess := range []float64{-7.2e6, 7.2e6} {
				s.Add(resultAt(3), excess, "gpuledger:board_unattributed_energy_joules:increase1h", "cluster", "east", "UUID", fmt.Sprint("GPU-", i), "serial", fmt.Sprint("S-", i))
			}
		}), nil, 1, 2, "east, hour 2026-10-01 03:00: the rules charge board S-0 2.000 kWh more than it used"},
		"a missing hour": {mistaken(func(s *foldtest.Store) { s.Remove("gpuledger:", resultAt(3)) }), nil, 1, 2, "east: rules has no hours from 2026-10-01T03 to 2026-10-01T04, but samples has these hours"},
		"an archive":     {right, []string{"--books=" + otherPod}, 1, 3, "east, 2026-10-02, namespace other: " + otherPod + " has"},
	} {
		r := run(t, append(append([]string{"verify", "--prove", "-o", "csv", "--store.url=" + tt.url}, tt.more...), fleetTime...)...)
		lines := strings.Split(strings.TrimSpace(r.out), "\n")[1:]
		if r.has(tt.status, tt.want); len(lines) != tt.rows {
			t.Errorf("%s: want %d rows:\n%s", name, tt.rows, r.out)
		}
		for _, line := range lines {
			if name != "a missing hour" && !strings.Contains(line, fmt.Sprintf(",%d,%d,", fleetHours, truth)) {
				t.Errorf("%s: the boards are not %d mJ in %d hours: %s", name, truth, fleetHours, line)
			}
		}
		digests := regexp.MustCompile(`,[0-9a-f]{16},`).FindAllString(r.out, -1)
		if same := len(digests) == tt.rows && strings.Count(r.out, digests[0]) == tt.rows; same != (tt.status == 0 || name == "a board") {
			t.Errorf("%s: digests %v", name, digests)
		}
	}
	run(t, append([]string{"verify", "--prove", "--books=" + folder, "--books=" + folder}, fleetTime...)...).has(0)
	run(t, append([]string{"statement", "--books=" + folder, "--books=" + folder}, fleetTime...)...).has(2)
}

// TestNegativeRest checks that verify rejects an hour in which pods are charged more energy than the board used. The
// rows of the hour still add up to the energy of the board, because the unattributed energy is negative.
func TestNegativeRest(t *testing.T) {
	folder := fileUses(t, map[time.Time][]use{october: {{"ml", 1, 1}, {"", 1, 0}}, october.Add(time.Hour): {{"ml", 5, 1}, {"", -4, 0}}, october.Add(2 * time.Hour): {{"", 9, 0}}})
	args := []string{"--books=" + folder, "--from=2026-10-01", "--to=2026-10-01T03"}
	const want = "! east, hour 2026-10-01 01:00: pods and units are charged 4.000 kWh more than the boards used\n"
	r := run(t, append([]string{"verify"}, args...)...)
	if r.has(1, want); strings.Count(r.out, "charged ") != 1 {
		t.Errorf("verify lists several hours:\n%s", r.out)
	}
	args[2] = "--to=2026-10-01T02"
	run(t, append([]string{"statement", "--by=namespace"}, args...)...).has(0, "charged 3.000 kWh more than the boards used: run verify")
}
