package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/archive/web"
)

// TestFromBillToBoard follows the links from each line of a statement to the hours of a pod or unit, and then to the
// board. The hours must be in the period of the statement. The page must show the command that explains these hours on
// the node.
func TestFromBillToBoard(t *testing.T) {
	path := archive(t, func(h *table.Hour) {
		for i := range h.Charges {
			if c := &h.Charges[i]; c.Namespace == "vision-ns" {
				c.Namespace, c.Pod, c.PodUID, c.Manager, c.Unit = "", "", "", "slurm", "4711"
			}
		}
	})
	h := pages(t, web.Config{Pages: true, Settings: settings(t)}, path)
	for _, bill := range []string{"/statement/2026-10?by=namespace,pod", "/statement?by=unit&month=2026-10", "/idle/2026-10?by=pod"} {
		uses := linksTo(t, h, bill, "/ran?")
		if len(uses) == 0 {
			t.Errorf("%s has no link to the hours of a pod or unit", bill)
		}
		for _, use := range uses {
			u, err := url.Parse(use)
			check(t, err)
			if u.Query().Get("from") != "2026-10-01" || u.Query().Get("to") != "2026-11-01" {
				t.Errorf("%s links to the period %s", bill, u.RawQuery)
			}
			owner := u.Query().Get("pod") + u.Query().Get("unit")
			if boards := linksTo(t, h, use, "/board/"); len(boards) == 0 {
				t.Errorf("%s has no link to a board", use)
			}
			page := get(t, h, use).Body.String()
			explained := func(e element) bool {
				return e.name == "kbd" && strings.HasPrefix(e.text, "gpuledger explain --gpu=") && strings.Contains(e.text, owner)
			}
			if !slices.ContainsFunc(parse(t, page), explained) {
				t.Errorf("%s names no command that explains %s:\n%s", use, owner, page)
			}
		}
	}
}

// linksTo returns the links of a page to paths with a prefix, relative to the root of the site. It fails if the target
// of a link does not exist.
func linksTo(t *testing.T, h http.Handler, page, prefix string) (links []string) {
	t.Helper()
	r := get(t, h, page)
	r.has(http.StatusOK)
	base, err := url.Parse(page)
	check(t, err)
	for _, e := range parse(t, r.Body.String()) {
		to, err := base.Parse(e.attributes["href"])
		if err != nil || e.name != "a" || !strings.HasPrefix(to.RequestURI(), prefix) || to.RequestURI() == page {
			continue
		}
		get(t, h, to.RequestURI()).has(http.StatusOK)
		links = append(links, to.RequestURI())
	}
	return links
}

// TestUsersOfBoard compares the chart of energy by pod and unit with the table on the same page.
func TestUsersOfBoard(t *testing.T) {
	n := 0
	h := pages(t, web.Config{Pages: true, Settings: settings(t)}, archive(t, func(h *table.Hour) {
		for i := range h.Charges {
			if c := &h.Charges[i]; c.Serial == "1653924023101" && c.Pod != "" && n%3 == 0 {
				c.Namespace, c.Pod, c.PodUID, c.WorkloadName = "night", "train-0", "uid-of-train-0", "train"
			}
			n++
		}
	}))
	page := get(t, h, "/board/1653924023101").Body.String()
	sums := make(map[string]float64) // kWh
	for _, rows := range tables(t, page) {
		pod, kwh := slices.Index(rows[0], "POD"), slices.Index(rows[0], "KWH")
		if pod < 0 || kwh < 0 {
			continue
		}
		for _, row := range rows[1:] {
			energy, err := strconv.ParseFloat(row[kwh], 64)
			check(t, err)
			sums[row[slices.Index(rows[0], "NAMESPACE")]+" / "+row[pod]] += energy
		}
	}
	if len(sums) < 2 {
		t.Fatalf("the board has the users %v", sums)
	}
	_, bars, _ := strings.Cut(page, `<dl class="bars">`)
	bars, _, _ = strings.Cut(bars, "</dl>")
	for name, energy := range sums {
		_, after, _ := strings.Cut(bars, "<bdi>"+name+"</bdi>")
		if line, _, _ := strings.Cut(after, "</div>"); !strings.Contains(line, fmt.Sprintf("%.3f kWh", energy)) {
			t.Errorf("%s: %q, want %.3f kWh", name, line, energy)
		}
	}
}
