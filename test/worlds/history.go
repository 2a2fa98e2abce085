// Package worlds contains simulated histories of GPU fleets, as samples in Prometheus. Boards move, nodes reboot, and
// scrapers are down for a while. The tests of the recording rules, of the documented queries and of the archive's
// reports use these histories.
package worlds

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A History contains the series that a Prometheus server scraped. A series can have a sample or a staleness marker at
// each multiple of the interval.
type History struct {
	Interval time.Duration
	Series   map[string]map[int]string // the key is the name with labels, then the number of the interval
}

// Began is the start of histories that are loaded into a server.
var Began = time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)

const stale = "stale"

// New returns an empty history.
func New(interval time.Duration) *History {
	return &History{Interval: interval, Series: make(map[string]map[int]string)}
}

// Add writes a sample of a series.
func (h *History) Add(series string, at time.Duration, value float64) {
	h.write(series, at, strconv.FormatFloat(value, 'f', -1, 64))
}

// End writes a staleness marker to a series.
func (h *History) End(series string, at time.Duration) {
	h.write(series, at, stale)
}

func (h *History) write(series string, at time.Duration, value string) {
	if at%h.Interval != 0 {
		panic(fmt.Sprintf("%s at %s is not a multiple of the interval", series, at))
	}
	if h.Series[series] == nil {
		h.Series[series] = make(map[int]string)
	}
	h.Series[series][int(at/h.Interval)] = value
}

// Constant writes a sample at each interval between two times, and a staleness marker at the end.
func (h *History) Constant(series string, from, to time.Duration, value float64) {
	h.Linear(series, from, to, value, 0)
}

// Linear is [History.Constant] with a value that grows by slope per second.
func (h *History) Linear(series string, from, to time.Duration, value, slope float64) {
	for at := from; at < to; at += h.Interval {
		h.Add(series, at, value+slope*(at-from).Seconds())
	}
	h.End(series, to)
}

// Forget removes samples and markers between two times, as if the scraper had been down.
func (h *History) Forget(match string, from, to time.Duration) {
	for name, slots := range h.Series {
		if strings.Contains(name, match) {
			maps.DeleteFunc(slots, func(slot int, _ string) bool {
				at := time.Duration(slot) * h.Interval
				return from <= at && at < to
			})
		}
	}
}

// Without returns a copy without the series whose text contains match.
func (h *History) Without(match string) *History {
	some := New(h.Interval)
	for name, slots := range h.Series {
		if !strings.Contains(name, match) {
			some.Series[name] = slots
		}
	}
	return some
}

// Render returns the series in promtool's format, beginning at a time.
func (h *History) Render(from time.Duration) []map[string]string {
	first := int(from / h.Interval)
	var all []map[string]string
	for _, name := range slices.Sorted(maps.Keys(h.Series)) {
		var values []string
		next := first
		for _, slot := range slices.Sorted(maps.Keys(h.Series[name])) {
			if slot < first {
				continue
			}
			if missing := slot - next; missing > 0 {
				values = append(values, fmt.Sprintf("_x%d", missing))
			}
			values = append(values, h.Series[name][slot])
			next = slot + 1
		}
		all = append(all, map[string]string{"series": name, "values": strings.Join(values, " ")})
	}
	return all
}

// Series formats a name and its sorted labels, as promtool does.
func Series(name string, labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if labels[key] != "" {
			pairs = append(pairs, fmt.Sprintf("%s=%q", key, labels[key]))
		}
	}
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// OpenMetrics returns the history in the OpenMetrics format, without staleness markers.
func (h *History) OpenMetrics() []byte {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h.Series)) {
		for _, slot := range slices.Sorted(maps.Keys(h.Series[name])) {
			if value := h.Series[name][slot]; value != stale {
				fmt.Fprintf(&text, "%s %s %d\n", name, value, Began.Add(time.Duration(slot)*h.Interval).Unix())
			}
		}
	}
	return []byte(text.String() + "# EOF\n")
}

// Length returns the time of the last sample.
func (h *History) Length() time.Duration {
	last := 0
	for _, slots := range h.Series {
		for slot := range slots {
			last = max(last, slot)
		}
	}
	return time.Duration(last) * h.Interval
}

// With returns a copy of the labels with changes. An empty value removes a label.
func With(labels map[string]string, more ...string) map[string]string {
	all := maps.Clone(labels)
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// Some formats the named labels, as promtool does.
func Some(labels map[string]string, names ...string) string { return By(names...)(labels) }

// Sum returns the increase of a counter in a window, added up by group. Each sample adds the increase since the
// previous sample or, if the counter restarted, its whole value. A counter restarted if its created timestamp changed
// or its value decreased.
//
// If a series has no earlier sample in the 24 hours before the hour of a sample, the value of this sample is added only
// if the series was created after the start of these 24 hours. key returns the group of a series, or "" to omit the
// series.
func (h *History) Sum(metric string, window Span, key func(labels map[string]string) string) map[string]float64 {
	sums := make(map[string]float64)
	for name, slots := range h.Series {
		labels := Parse(name)
		if labels["__name__"] != metric || key(labels) == "" {
			continue
		}
		var last, began float64
		seen := -Daily - time.Hour
		for _, slot := range slices.Sorted(maps.Keys(slots)) {
			value, err := strconv.ParseFloat(slots[slot], 64)
			if err != nil { // a staleness marker
				continue
			}
			at := time.Duration(slot) * h.Interval
			hour := (at - 1).Truncate(time.Hour)
			created, known := h.created(labels, slot)
			grown := value - last
			switch {
			case hour-seen >= Daily && known && created >= (hour-Daily).Seconds():
				grown = value
			case hour-seen >= Daily:
				grown = 0
			case grown < 0 || known && created != began:
				grown = value
			}
			last, seen = value, at
			if known {
				began = created
			}
			if window.From < at && at <= window.To {
				sums[key(labels)] += grown
			}
		}
	}
	return sums
}

func (h *History) created(labels map[string]string, slot int) (seconds float64, known bool) {
	of := maps.Clone(labels)
	delete(of, "__name__")
	seconds, err := strconv.ParseFloat(h.Series[Series(CreatedOf(labels["__name__"]), of)][slot], 64)
	return seconds, err == nil
}

var (
	word = regexp.MustCompile(`^\w+`)
	pair = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// Parse parses a series that [Series] formatted.
func Parse(text string) map[string]string {
	labels := map[string]string{"__name__": word.FindString(text)}
	for _, p := range pair.FindAllStringSubmatch(text, -1) {
		labels[p[1]] = p[2]
	}
	return labels
}

// By returns a key function that formats the named labels as promtool does.
func By(names ...string) func(map[string]string) string {
	return func(labels map[string]string) string {
		Some := make(map[string]string)
		for _, n := range names {
			Some[n] = labels[n]
		}
		return Series("", Some)
	}
}
