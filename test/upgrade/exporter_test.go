//go:build e2e

package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/internal/status"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/program"
)

// Exporters of both versions read this node, with the fake driver of this version.
type node struct {
	*simnode.Node
	group   *program.Group
	library string
}

func newNode(t *testing.T, scenario string) node {
	t.Helper()
	sc, err := simnode.Lookup(scenario)
	check(t, err)
	group := program.OpenFor(t)
	library, err := fakes.Compile(group.Path())
	check(t, err)
	n, err := simnode.Open(group.Path("node"), sc, host.Now())
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.RunLive(ctx, host.Now) }()
	t.Cleanup(func() {
		cancel()
		check(t, <-done)
		check(t, n.Close())
	})
	for _, variable := range n.Env() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	return node{n, group, library}
}

type exporter struct {
	*program.Program
	url string
}

func (n node) start(t *testing.T, v Version) exporter {
	t.Helper()
	address := program.AddressFor(t)
	flags := append(n.Flags(), "--web.listen-address="+address, "--nvml.library="+n.library, "--nvml.call-timeout=1m", "--tick=200ms", "--log.format=json")
	p, err := n.group.Start("gpuledger", v.Program("gpuledger"), flags...)
	check(t, err)
	e := exporter{p, "http://" + address}
	check(t, p.Ready(t.Context(), e.url+"/-/ready"))
	return e
}

// scrape returns both pages of metrics, with created timestamps.
func (e exporter) scrape(t *testing.T) exposition.Page {
	t.Helper()
	page, err := exposition.ScrapeCreated(t.Context(), e.url+"/metrics")
	check(t, err)
	record, err := exposition.ScrapeCreated(t.Context(), e.url+"/metrics/record")
	check(t, err)
	maps.Copy(page, record)
	return page
}

// charged scrapes until the energy of every GPU is high enough above its energy on the given page. It returns the last
// page.
func (e exporter) charged(t *testing.T, before exposition.Page) exposition.Page {
	t.Helper()
	const energy, more = "gpuledger_gpu_energy_joules_total", 100_000
	for deadline := time.Now().Add(5 * time.Minute); ; <-time.After(100 * time.Millisecond) {
		page := e.scrape(t)
		waits := slices.ContainsFunc(page.UUIDs(), func(uuid string) bool {
			of := map[string]string{"UUID": uuid}
			return page.Millijoules(energy, of) < before.Millijoules(energy, of)+more
		})
		if !waits && len(page.UUIDs()) > 0 {
			return page
		}
		if time.Now().After(deadline) {
			t.Fatal("timeout: no GPU was charged")
		}
	}
}

// balances checks that the accounts of each GPU add up to its energy, to the millijoule.
func balances(t *testing.T, page exposition.Page) {
	t.Helper()
	for _, uuid := range page.UUIDs() {
		of := map[string]string{"UUID": uuid}
		var accounts gpu.Millijoules
		for _, kind := range []string{"container", "unit", "unattributed", "retired"} {
			accounts += page.Millijoules("gpuledger_"+kind+"_energy_joules_total", of)
		}
		if energy := page.Millijoules("gpuledger_gpu_energy_joules_total", of); energy != accounts {
			t.Errorf("%s: the board counted %d mJ, the accounts contain %d mJ", uuid, energy, accounts)
		}
	}
}

// Metrics with these prefixes are not compared. They describe the process, so they restart with it, or they contain the
// program's version.
var ofProcess = []string{"gpuledger_stage_", "gpuledger_http_", "gpuledger_build_", "gpuledger_scrape_"}

// kept checks that no counter decreased or restarted on the page of the next version. It returns the changes of labels.
func kept(t *testing.T, before, after exposition.Page) (changes []string) {
	t.Helper()
	for name, family := range before {
		if !strings.HasPrefix(name, "gpuledger_") || slices.ContainsFunc(ofProcess, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		if change := relabelled(family, after[name]); change != "" {
			changes = append(changes, name+change)
			continue
		}
		counter, static := family.GetType() == dto.MetricType_COUNTER, strings.HasSuffix(name, "_info")
		if !counter && !static {
			continue // gauges depend on the current readings
		}
		for _, was := range family.GetMetric() {
			found := after.Matches(name, exposition.Labels(was))
			if len(found) != 1 {
				t.Errorf("%s%v has %d series on the next page, want 1", name, exposition.Labels(was), len(found))
				continue
			}
			is := found[0]
			if counter && exposition.Value(is) < exposition.Value(was) {
				t.Errorf("%s%v decreased from %v to %v", name, exposition.Labels(was), exposition.Value(was), exposition.Value(is))
			}
			if a, b := was.GetCounter().GetCreatedTimestamp(), is.GetCounter().GetCreatedTimestamp(); counter && !a.AsTime().Equal(b.AsTime()) {
				t.Errorf("%s%v was created at %v, then at %v", name, exposition.Labels(was), a.AsTime(), b.AsTime())
			}
		}
	}
	return changes
}

func relabelled(before, after *dto.MetricFamily) string {
	if len(before.GetMetric()) == 0 || len(after.GetMetric()) == 0 {
		return ""
	}
	names := func(f *dto.MetricFamily) []string {
		all := make(map[string]bool)
		for _, m := range f.GetMetric() {
			for name := range exposition.Labels(m) {
				all[name] = true
			}
		}
		return slices.Sorted(maps.Keys(all))
	}
	was, is := names(before), names(after)
	return strings.Join(slices.Concat(minus("-", was, is), minus("+", is, was)), "")
}

// documents returns the JSON pages by path. An earlier exporter may not serve all of them.
func (e exporter) documents(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, path := range []string{inventory.Path, status.Path, health.Path} {
		response, err := http.Get(e.url + path)
		check(t, err)
		text, err := io.ReadAll(response.Body)
		check(t, errors.Join(err, response.Body.Close()))
		if response.StatusCode == http.StatusOK {
			all[path] = string(text)
		}
	}
	return all
}

// fields adds the paths and types of the fields in a JSON value to a set.
func fields(into map[string]bool, path string, value any) {
	switch v := value.(type) {
	case nil:
		return
	case map[string]any:
		for key, inner := range v {
			if strings.HasPrefix(key, "GPU-") || strings.HasPrefix(key, "MIG-") {
				key = "UUID"
			}
			fields(into, path+"."+key, inner)
		}
	case []any:
		for _, inner := range v {
			fields(into, path+"[]", inner)
		}
	default:
		into[fmt.Sprintf("%s %T", path, v)] = true
	}
}

// lost returns the fields that are missing from the page of the next version. New fields are allowed, because readers
// ignore them.
func lost(t *testing.T, path, before, after string) []string {
	t.Helper()
	sets := [2]map[string]bool{{}, {}}
	for i, text := range []string{before, after} {
		var value any
		check(t, json.Unmarshal([]byte(text), &value))
		fields(sets[i], path, value)
	}
	if len(sets[0]) < 10 {
		t.Fatalf("%s has %d fields", path, len(sets[0]))
	}
	return minus("-", slices.Sorted(maps.Keys(sets[0])), slices.Sorted(maps.Keys(sets[1])))
}

// run contains the results of four exporters that ran one after another on a node: the earlier exporter, this exporter,
// the earlier exporter again, and this exporter again.
type run struct {
	series, json, forgotten []string
	// pages contains the metrics of the first and the second exporter.
	pages [2]exposition.Page
}

// All exporters use one state directory.
func play(t *testing.T, scenario string) (r run) {
	t.Helper()
	previous, current := Previous(t), Current(t)
	n := newNode(t, scenario)
	e := n.start(t, previous)
	before := e.charged(t, nil)
	balances(t, before)
	earlier := e.documents(t)
	e.Stop()

	e = n.start(t, current)
	r.series = kept(t, before, e.scrape(t))
	after := e.charged(t, before)
	balances(t, after)
	now := e.documents(t)
	for path, document := range earlier {
		r.json = append(r.json, lost(t, path, document, now[path])...)
	}
	readers(t, earlier, now)
	r.pages = [2]exposition.Page{before, after}
	e.Stop()

	e = n.start(t, previous)
	known := maps.Clone(after)
	maps.DeleteFunc(known, func(name string, _ *dto.MetricFamily) bool { return before[name] == nil }) // removes the metrics that are new in this version
	kept(t, known, e.scrape(t))
	back := e.charged(t, after)
	balances(t, back)
	e.Stop()

	e = n.start(t, current)
	again := e.scrape(t)
	kept(t, back, again)
	r.forgotten = forgotten(before, after, again)
	balances(t, e.charged(t, back))
	e.Stop()
	return r
}

// forgotten returns new counters that restart because the earlier exporter ran in between. It does not save them.
func forgotten(before, after, again exposition.Page) (names []string) {
	for name, family := range after {
		if before[name] != nil || family.GetType() != dto.MetricType_COUNTER {
			continue
		}
		for _, was := range family.GetMetric() {
			found := again.Matches(name, exposition.Labels(was))
			if len(found) == 0 || exposition.Value(found[0]) < exposition.Value(was) {
				names = append(names, name)
			}
		}
	}
	return names
}

// readers checks that the reconcilers of both versions decode equal values from the inventory of each exporter. It also
// checks that this version can read the health page of the earlier exporter, if there is one.
func readers(t *testing.T, exporters ...map[string]string) {
	t.Helper()
	for i, documents := range exporters {
		var understood [2]any
		for j, reader := range []string{Previous(t).Program("pages"), pages} {
			check(t, json.Unmarshal(read(t, reader, "inventory", documents[inventory.Path]), &understood[j]))
		}
		if missing := absent("", understood[0], understood[1]); missing != nil {
			t.Errorf("inventory %d: the readers differ in %v", i, missing)
		}
		if page := documents[health.Path]; page != "" {
			_, err := health.Decode(strings.NewReader(page))
			check(t, err)
		}
	}
}

// absent returns the paths of the values in the first document that are missing from the second document or differ
// there.
func absent(path string, of, in any) (all []string) {
	switch v := of.(type) {
	case map[string]any:
		other, _ := in.(map[string]any)
		for key, inner := range v {
			all = append(all, absent(path+"."+key, inner, other[key])...)
		}
	case []any:
		other, _ := in.([]any)
		if len(v) != len(other) {
			return []string{path}
		}
		for i := range v {
			all = append(all, absent(path+"[]", v[i], other[i])...)
		}
	default:
		if of != in {
			return []string{path}
		}
	}
	return all
}

// The scenarios contain pods, a throttled GPU, MIG instances, and jobs and containers outside pods.
var scenarios = []string{"dgx-h100", "timeslice", "mig", "slurm", "workstation"}

// TestUpgradeExporter runs four exporters, one after another, on simulated nodes: the earlier exporter, this exporter
// with the same state file, the earlier exporter with the new state file, and this exporter again. No counter may
// decrease or restart. Only counters that are new in this version may restart, because the earlier exporter does not
// save them. All labels and JSON fields must stay, and the accounts must add up to the energy of their GPU.
//
// Then the test compares the alerts that fire for the pages of both versions.
func TestUpgradeExporter(t *testing.T) {
	var series, documents, lost, fired []string
	for _, scenario := range scenarios {
		t.Run(scenario, func(t *testing.T) {
			r := play(t, scenario)
			series, documents, lost = append(series, r.series...), append(documents, r.json...), append(lost, r.forgotten...)
			if scenario == "dgx-h100" { // promtool takes several seconds
				fired = append(fired, alertChanges(t, r.pages)...)
			}
		})
	}
	if t.Failed() { // without the alerts, the list of differences is incomplete
		return
	}
	Compare(t, "series", series)
	Compare(t, "json", documents)
	Compare(t, "forgotten", lost)
	Compare(t, "alert", fired)
}
