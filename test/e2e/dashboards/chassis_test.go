//go:build e2e

package dashboards_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/prometheus"
)

// chassis is the chassis that the driver reports for a GPU. machine is the chassis of its machine. Each GPU has an XID
// error.
type housed struct{ uuid, node, chassis, machine string }

// One of these GPUs reports no chassis although its machine has one.
var housing = []housed{
	{"GPU-1", "a", "C", "C"},
	{"GPU-2", "b", "", ""},
	{"GPU-3", "b", "", ""},
	{"GPU-4", "c", "", "D"},
	{"GPU-5", "d", "", ""},
}

var chassisLink = regexp.MustCompile(`"url": "/d/gpuledger-chassis\?([^"]*)"`)

// TestChassisLinks checks each link in the column "Chassis" of the panel "Failures by slot". The link must open a page
// with the GPUs of its row.
func TestChassisLinks(t *testing.T) {
	var h history
	for i, g := range housing {
		labels := fmt.Sprintf(`node=%q,UUID=%q,serial="S%d",pci_bus_id="00000000:%02X:00.0"`, g.node, g.uuid, i, i)
		h.counter(fmt.Sprintf(`gpuledger_gpu_info{%s,model="H100",chassis_serial=%q,chassis_slot=""}`, labels, g.chassis), 0, end, 1, 0)
		h.counter(fmt.Sprintf(`gpuledger_gpu_present{node=%q,UUID=%q}`, g.node, g.uuid), 0, end, 1, 0)
		h.counter(fmt.Sprintf(`gpuledger_board_xid_errors_total{node=%q,UUID=%q,serial="S%d",xid="79"}`, g.node, g.uuid, i), time.Hour, end, 1, 0)
	}
	for node, chassis := range map[string]string{"a": "C", "b": "", "c": "D", "d": ""} {
		h.counter(fmt.Sprintf(`gpuledger_node_info{node=%q,chassis_serial=%q}`, node, chassis), 0, end, 1, 0)
	}
	address := backfilled(t, "chassis", end, h.bytes())
	at := began.Add(end)
	links := chassisLinks(t)
	got := make(map[string]float64)
	for _, row := range panel(t, address, "fleet", "Failures by slot", map[string]string{"__range": "6h"}, at) {
		for _, link := range links {
			given := followed(t, link, row.Labels)
			shown := panel(t, address, "chassis", "GPUs present", given, at)
			place := row.Labels["node"] + " " + row.Labels["chassis_serial"]
			if len(shown) != 1 {
				t.Errorf("the link in row %s leads to an empty page: %v", place, given)
				continue
			}
			got[place] = shown[0].Value
		}
	}
	if diff := cmp.Diff(map[string]float64{"a C": 1, "b -": 2, "c -": 1, "d -": 1}, got); diff != "" {
		t.Errorf("GPUs on the page that a row links (-want +got):\n%s", diff)
	}
	// If the user selects another chassis on this page, the page must show only the GPUs of that chassis.
	for chassis, want := range map[string]float64{"C": 1, "D": 1} {
		shown := panel(t, address, "chassis", "GPUs present", map[string]string{"chassis_serial": chassis, "machine": "b"}, at)
		if len(shown) != 1 || shown[0].Value != want {
			t.Errorf("chassis %s has %v, want %v GPUs", chassis, shown, want)
		}
	}
}

func chassisLinks(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../../dashboards/*.json")
	check(t, err)
	var links []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		for _, m := range chassisLink.FindAllSubmatch(text, -1) {
			links = append(links, strings.ReplaceAll(string(m[1]), `\u0026`, "&"))
		}
	}
	if len(links) < 3 {
		t.Fatalf("%d links to the dashboard Chassis", len(links))
	}
	return links
}

// followed returns the variables that a link in the column "Chassis" sets. Grafana shows an empty cell as "-".
func followed(t *testing.T, link string, row map[string]string) map[string]string {
	t.Helper()
	given := make(map[string]string)
	for pair := range strings.SplitSeq(link, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, ok := strings.CutPrefix(name, "var-")
		if !ok {
			continue
		}
		value = strings.ReplaceAll(value, "${__value.text}", row["chassis_serial"])
		for label, text := range row {
			value = strings.ReplaceAll(value, "${__data.fields."+label+"}", text)
		}
		text, err := url.QueryUnescape(value)
		check(t, err)
		given[name] = text
	}
	return given
}

func panel(t *testing.T, address, file, title string, given map[string]string, at time.Time) []prometheus.Sample {
	t.Helper()
	for _, p := range read(t, "../../../dashboards/"+file+".json").Panels {
		if p.Title != title {
			continue
		}
		samples, err := prometheus.Query(t.Context(), address, filled(p.Targets[0].Expr, file, given), at)
		check(t, err)
		return samples
	}
	t.Fatalf("%s has no panel %s", file, title)
	return nil
}
