//go:build e2e

package rules_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// history has the scraped series of a Prometheus, with a sample, a staleness marker or nothing at
// each multiple of an interval.
type history struct {
	interval time.Duration
	series   map[string]map[int]string // by name and labels, then by slot
}

const stale = "stale"

func newHistory(interval time.Duration) *history {
	return &history{interval: interval, series: make(map[string]map[int]string)}
}

// add writes a sample.
func (h *history) add(series string, at time.Duration, value float64) {
	h.write(series, at, strconv.FormatFloat(value, 'f', -1, 64))
}

// end writes a staleness marker.
func (h *history) end(series string, at time.Duration) {
	h.write(series, at, stale)
}

func (h *history) write(series string, at time.Duration, value string) {
	if at%h.interval != 0 {
		panic(fmt.Sprintf("%s at %s is between two slots", series, at))
	}
	if h.series[series] == nil {
		h.series[series] = make(map[int]string)
	}
	h.series[series][int(at/h.interval)] = value
}

// constant writes a sample at each interval from one moment until before another one, and a
// staleness marker there.
func (h *history) constant(series string, from, to time.Duration, value float64) {
	h.linear(series, from, to, value, 0)
}

// linear is constant with a value that grows at a rate per second.
func (h *history) linear(series string, from, to time.Duration, value, slope float64) {
	for at := from; at < to; at += h.interval {
		h.add(series, at, value+slope*(at-from).Seconds())
	}
	h.end(series, to)
}

// forget removes samples and markers from one moment to another, as if the scraper had been down.
func (h *history) forget(match string, from, to time.Duration) {
	for name, slots := range h.series {
		if strings.Contains(name, match) {
			maps.DeleteFunc(slots, func(slot int, _ string) bool {
				at := time.Duration(slot) * h.interval
				return from <= at && at < to
			})
		}
	}
}

// render writes the series from a moment on in promtool's format.
func (h *history) render(from time.Duration) []map[string]string {
	first := int(from / h.interval)
	var all []map[string]string
	for _, name := range slices.Sorted(maps.Keys(h.series)) {
		var values []string
		next := first
		for _, slot := range slices.Sorted(maps.Keys(h.series[name])) {
			if slot < first {
				continue
			}
			if missing := slot - next; missing > 0 {
				values = append(values, fmt.Sprintf("_x%d", missing))
			}
			values = append(values, h.series[name][slot])
			next = slot + 1
		}
		all = append(all, map[string]string{"series": name, "values": strings.Join(values, " ")})
	}
	return all
}

// series formats a name and its sorted labels like promtool.
func series(name string, labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if labels[key] != "" {
			pairs = append(pairs, fmt.Sprintf("%s=%q", key, labels[key]))
		}
	}
	return name + "{" + strings.Join(pairs, ",") + "}"
}
