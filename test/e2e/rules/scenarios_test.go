//go:build e2e

package rules_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// A scenario lists all alerts that must fire.
type scenario struct {
	name string
	site site
	want []firing
}

// firing describes an alert that fires without a break from one time to another, inclusive. The alert may fire for a
// while longer.
type firing struct {
	alert, severity string
	from, to        time.Duration
}

const day = 24 * time.Hour

func hm(hours, minutes int) time.Duration {
	return time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
}

func between(fromHour, fromMinute, toHour, toMinute int) []span {
	return []span{{From: hm(fromHour, fromMinute), To: hm(toHour, toMinute)}}
}

// onward returns a span from the given time to the end of the test.
func onward(hour, minute int) []span { return []span{{From: hm(hour, minute), To: 100 * day}} }

// of returns two nodes for a day. change modifies the second node.
func of(change func(n *node)) site {
	first, second := &node{name: "a", exists: span{From: 0, To: 100 * day}}, &node{name: "b", exists: span{From: 0, To: 100 * day}}
	if change != nil {
		change(second)
	}
	return site{length: day, nodes: []*node{first, second}}
}

func changed(length time.Duration, change func(s *site)) site {
	s := of(nil)
	s.length = length
	change(&s)
	return s
}

// swapped returns two boards in one slot. The second board replaces the first.
func swapped(at, back time.Duration) map[int][]board {
	return map[int][]board{1: {{"GPU-old", span{From: 0, To: at}}, {"GPU-new", span{From: back, To: 100 * day}}}}
}

// ordinary contains scenarios of normal operation. No operator needs to act, but some scenarios raise notices for the
// asset list.
var ordinary = []scenario{
	{name: "a quiet day", site: of(nil)},
	{name: "an autoscaled node builds its driver for 40 minutes", site: of(func(n *node) {
		n.exists.From, n.driverDown = hm(5, 0), between(5, 0, 5, 40)
	})},
	{name: "a node is removed by the autoscaler", site: of(func(n *node) { n.exists.To = hm(8, 0) })},
	{name: "no node over the weekend", site: changed(60*time.Hour, func(s *site) {
		for _, n := range s.nodes {
			n.exists.To = hm(10, 0)
		}
		s.nodes = append(s.nodes, &node{name: "c", exists: span{From: hm(46, 20), To: 100 * day}})
	})},
	{name: "a drained node reboots", site: of(func(n *node) { n.cordoned, n.off = between(4, 0, 5, 0), between(4, 20, 4, 50) })},
	{name: "the driver is upgraded on a cordoned node", site: of(func(n *node) {
		n.cordoned, n.driverDown = between(4, 0, 5, 0), between(4, 5, 4, 50)
	}), want: []firing{{"GPULedgerDriverDown", "notice", hm(4, 20), hm(4, 45)}}},
	{name: "the exporter is rolled out", site: of(func(n *node) { n.uninstalled = between(6, 0, 6, 3) })},
	{name: "Prometheus restarts for half an hour", site: changed(day, func(s *site) { s.blind = between(7, 10, 7, 40) })},
	{name: "Slurm powers a machine down at night", site: of(func(n *node) { n.standalone, n.off = true, between(2, 0, 12, 0) })},
	{name: "a laboratory with one namespace, also for the exporter", site: changed(day, func(s *site) {
		for _, n := range s.nodes {
			n.laboratory = true
		}
	})},
	{name: "a board is replaced", site: of(func(n *node) {
		n.cordoned, n.off, n.boards = between(6, 0, 7, 0), between(6, 10, 6, 50), swapped(hm(6, 10), hm(6, 50))
	}), want: []firing{{"GPULedgerGPUReplaced", "notice", hm(7, 0), hm(7, 30)}}},
	{name: "the reconciler is upgraded", site: changed(day, func(s *site) { s.reconciler.off = between(3, 0, 3, 5) })},
	{name: "the archive is upgraded", site: changed(day, func(s *site) { s.archive.off = between(3, 0, 3, 10) })},
	{name: "kube-state-metrics restarts", site: changed(day, func(s *site) { s.stateMetrics.off = between(3, 0, 3, 10) })},
	{name: "a pod pauses for an hour", site: of(func(n *node) { n.idle = between(9, 0, 10, 0) })},
	{name: "a cluster without reconciler, archive and kube-state-metrics", site: changed(day, func(s *site) {
		s.reconciler.uninstalled, s.archive.uninstalled, s.stateMetrics.uninstalled = onward(0, 0), onward(0, 0), onward(0, 0)
	})},
	{name: "a GPU of a single pod is never idle", site: changed(2*day, func(s *site) { s.nodes[1].limit = onward(0, 0) })},
	{name: "a shared GPU is busy for a day after a reboot", site: changed(2*day, func(s *site) {
		s.nodes[1].limit, s.nodes[1].estimated = between(4, 0, 28, 0), between(4, 0, 28, 0)
	})},
	{name: "a node joins", site: of(func(n *node) { n.exists.From = hm(6, 35) })},
}

// In faults, an alert fires until the fault ends.
var faults = []scenario{
	{
		name: "an exporter fails", site: of(func(n *node) { n.exporterDown = onward(4, 0) }),
		want: []firing{{"GPULedgerExporterMissing", "warning", hm(4, 25), day}},
	},
	{
		name: "an exporter is removed", site: of(func(n *node) { n.uninstalled = onward(4, 0) }),
		want: []firing{{"GPULedgerExporterMissing", "warning", hm(4, 25), day}},
	},
	{
		name: "an exporter is removed, without a reconciler", site: changed(2*day, func(s *site) {
			s.reconciler.uninstalled, s.nodes[1].uninstalled = onward(0, 0), onward(4, 0)
		}),
		want: []firing{{"GPULedgerExporterMissing", "warning", hm(4, 25), 2 * day}},
	},
	{
		name: "the reconciler is removed", site: changed(2*day, func(s *site) { s.reconciler.uninstalled = onward(4, 0) }),
		want: []firing{{"GPULedgerReconcilerDown", "warning", hm(4, 25), 2 * day}},
	},
	{
		name: "the reconciler fails", site: changed(2*day, func(s *site) { s.reconciler.off = onward(4, 0) }),
		want: []firing{{"GPULedgerReconcilerDown", "warning", hm(4, 25), 2 * day}},
	},
	{
		name: "the archive is removed", site: changed(2*day, func(s *site) { s.archive.uninstalled = onward(4, 0) }),
		want: []firing{{"GPULedgerArchiveDown", "warning", hm(4, 40), 2 * day}},
	},
	{
		name: "a database is down", site: changed(day, func(s *site) { s.sinkDown, s.behind = onward(4, 0), onward(8, 0) }),
		want: []firing{{"GPULedgerArchiveSinkFailing", "warning", hm(4, 40), day}, {"GPULedgerArchiveBehind", "warning", hm(8, 40), day}},
	},
	{
		name: "a driver hangs", site: of(func(n *node) { n.driverDown = onward(4, 0) }),
		want: []firing{{"GPULedgerDriverDown", "critical", hm(4, 20), day}},
	},
	{
		name: "a driver is never built", site: of(func(n *node) { n.exists.From, n.driverDown = hm(4, 0), onward(4, 0) }),
		want: []firing{{"GPULedgerDriverDown", "critical", hm(5, 20), day}},
	},
	{
		name: "a GPU is lost", site: of(func(n *node) { n.lost = onward(4, 0) }),
		want: []firing{{"GPULedgerGPULost", "critical", hm(4, 15), day}},
	},
	{
		name: "a GPU does not come back after a reboot", site: of(func(n *node) {
			n.off, n.boards = between(4, 0, 4, 10), map[int][]board{1: {{"GPU-gone", span{From: 0, To: hm(4, 0)}}}}
		}),
		want: []firing{{"GPULedgerGPUNotBack", "warning", hm(4, 40), day}},
	},
	{
		name: "XID 79", site: of(func(n *node) { n.xid = onward(4, 0) }),
		want: []firing{{"GPULedgerXID", "warning", hm(4, 5), hm(4, 55)}},
	},
	{
		name: "the record is not scraped", site: of(func(n *node) { n.recordDown = onward(4, 0) }),
		want: []firing{{"GPULedgerRecordNotScraped", "warning", hm(4, 25), day}},
	},
	{
		name: "the record is scraped twice", site: of(func(n *node) { n.second = onward(4, 0) }),
		want: []firing{{"GPULedgerRecordScrapedTwice", "warning", hm(4, 25), day}},
	},
	{
		name: "the hourly rules fail", site: changed(day, func(s *site) { s.rulesDown = onward(4, 30) }),
		want: []firing{{"GPULedgerEnergyHourMissing", "warning", hm(6, 30), day}},
	},
	{
		name: "the kubelet does not answer", site: of(func(n *node) { n.kubeletDown = onward(4, 0) }),
		want: []firing{{"GPULedgerStageDown", "warning", hm(4, 20), day}},
	},
	{
		name: "Prometheus overwrites the namespaces", site: changed(day, func(s *site) {
			for _, n := range s.nodes {
				n.overwritten = true
			}
		}),
		want: []firing{{"GPULedgerOneNamespace", "warning", hm(0, 30), day}},
	},
	{
		name: "books do not balance", site: of(func(n *node) { n.imbalance = onward(4, 0) }),
		want: []firing{{"GPULedgerBooksOff", "warning", hm(4, 25), day}},
	},
	{
		name: "a shared GPU is never idle", site: changed(2*day, func(s *site) { s.nodes[1].limit, s.nodes[1].estimated = onward(4, 0), onward(4, 0) }),
		want: []firing{{"GPULedgerIdlePowerEstimated", "notice", hm(28, 15), 2 * day}},
	},
	{
		name: "a pod is idle", site: of(func(n *node) { n.idle = onward(4, 0) }),
		want: []firing{{"GPULedgerGPUAllocatedIdle", "notice", hm(8, 30), day}},
	},
}

// TestScenarios checks that the listed alerts fire for as long as the fault lasts. No other alert may ever fire.
func TestScenarios(t *testing.T) {
	var files []string
	for _, name := range []string{"alerts.yaml", "placement.yaml"} {
		file, err := filepath.Abs(rules(name))
		check(t, err)
		files = append(files, file)
	}
	for _, s := range slices.Concat(ordinary, faults) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			h := s.site.record()
			const group = "group by (alertname, severity) "
			all := make(map[string]float64)
			var tests []expressionTest
			for _, f := range s.want {
				labels := fmt.Sprintf("{alertname=%q, severity=%q}", f.alert, f.severity)
				all[labels] = 1
				steps := float64((f.to-f.from)/evaluation) + 1
				tests = append(tests, expect(fmt.Sprintf(`max by (alertname, severity) (count_over_time(ALERTS{alertstate="firing", alertname=%q, severity=%q}[%s]))`,
					f.alert, f.severity, f.to-f.from+time.Second), f.to, map[string]float64{labels: steps}))
			}
			tests = append(tests, expect(fmt.Sprintf(`%s(count_over_time(ALERTS{alertstate="firing"}[%s]))`, group, s.site.length), s.site.length, maps.Clone(all)))
			runTests(t, files, map[string]any{"evaluation_interval": evaluation.String()}, []testGroup{groupOf(h, 0, tests)})
		})
	}
}

const evaluation = 5 * time.Minute
