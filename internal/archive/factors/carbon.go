package factors

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Carbon contains the carbon intensity of each zone over time.
type Carbon struct {
	zones    map[string][]segment // intensities of each zone, sorted by time
	clusters map[string]string    // zone of each cluster
	only     string               // zone of all clusters, if the file has only one zone
}

// intensity is a row of the file. grams is the carbon intensity in a period, in grams of CO2 equivalent per
// kilowatt-hour.
type intensity struct {
	from, until time.Time // zero means no limit
	grams       float64
}

// segment is the intensity from one time to the start of the next segment.
type segment struct {
	from  time.Time
	grams float64
	known bool
}

// Our own names are first. Names from Electricity Maps' exports and API follow.
var carbonColumns = map[string][]string{
	"zone":  {"zone", "zone_id", "zone_key"},
	"from":  {"from", "datetime", "datetime (utc)"},
	"until": {"until", "to"},
	"grams": {
		"grams_per_kwh", "carbon_intensity", "carbon intensity gco2eq/kwh (life cycle)", "carbon intensity gco₂eq/kwh (life cycle)",
		"carbon intensity gco2eq/kwh (lca)", "carbon intensity gco₂eq/kwh (lca)", "carbon intensity gco2eq/kwh (direct)", "carbon intensity gco₂eq/kwh (direct)",
	},
}

func readCarbon(path, zones string) (*Carbon, error) {
	if path == "" {
		return nil, nil
	}
	clusters, err := parseZones(zones)
	if err != nil {
		return nil, err
	}
	c := &Carbon{zones: make(map[string][]segment), clusters: clusters}
	var intervals bool                   // set if each row is for an interval of the same length, as in files from Electricity Maps
	rows := make(map[string][]intensity) // by zone; the empty zone means all zones
	err = readList("carbon", path, carbonColumns, func(l *list) error {
		intervals = l.column("from") < 0
		if !l.has("from") || !l.has("grams") {
			return errors.New("must have the columns from and grams_per_kwh, or the columns of Electricity Maps")
		}
		return nil
	}, func(l *list) error {
		n, known, err := parseNumber(l.value("grams"))
		at := intensity{grams: n}
		if err == nil {
			at.from, err = parseTime(l.value("from"))
		}
		if err == nil {
			at.until, err = parseTime(l.value("until"))
		}
		if name := l.value("zone"); err == nil && known {
			rows[name] = append(rows[name], at)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, c.divide("--carbon="+path, rows, intervals)
}

func parseZones(text string) (map[string]string, error) {
	clusters := make(map[string]string)
	for field := range strings.SplitSeq(text, ",") {
		if cluster, zone, ok := strings.Cut(strings.TrimSpace(field), "="); ok {
			clusters[cluster] = zone
		} else if field != "" {
			return nil, fmt.Errorf("--carbon.zones=%s: must be a zone for each cluster, such as east=DE,west=FR", text)
		}
	}
	return clusters, nil
}

func (c *Carbon) divide(path string, zones map[string][]intensity, intervals bool) error {
	named := 0
	for zone, rows := range zones {
		if zone != "" {
			named++
			c.only = zone
			rows = slices.Concat(zones[""], rows)
		}
		c.zones[zone] = segments(rows, intervals)
	}
	if named > 1 {
		c.only = ""
	}
	if named > 1 && len(c.clusters) == 0 {
		return fmt.Errorf("%s has %d zones: set --carbon.zones", path, named)
	}
	for cluster, zone := range c.clusters {
		if zones[zone] == nil {
			return fmt.Errorf("--carbon.zones: zone %q of cluster %s is not in %s", zone, cluster, path)
		}
	}
	return nil
}

// forever is the end of rows without an end.
var forever = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)

// segments divides the time at the starts and ends of the rows of a zone. If several rows apply at a time, it uses the
// row with the latest start. If several rows have this start, it uses the last of them in the file.
func segments(rows []intensity, intervals bool) (all []segment) {
	rows = slices.SortedStableFunc(slices.Values(rows), func(a, b intensity) int { return a.from.Compare(b.from) })
	end := ends(rows, intervals)
	var moments []time.Time
	for i := range rows {
		if rows[i].until.IsZero() {
			rows[i].until = end(rows[i].from)
		}
		moments = append(moments, rows[i].from, rows[i].until)
	}
	slices.SortFunc(moments, time.Time.Compare)
	var begun []intensity // rows that have begun and not ended, sorted by start
	for _, at := range slices.CompactFunc(moments, time.Time.Equal) {
		for len(rows) > 0 && !rows[0].from.After(at) {
			begun, rows = append(begun, rows[0]), rows[1:]
		}
		for len(begun) > 0 && !begun[len(begun)-1].until.After(at) {
			begun = begun[:len(begun)-1]
		}
		now := segment{from: at}
		if n := len(begun); n > 0 {
			now.grams, now.known = begun[n-1].grams, true
		}
		all = append(all, now)
	}
	return all
}

// ends returns a function that returns the end of a row that has only a start. In a file of hourly data, such a row is
// valid for an hour, so that gaps are visible. In a file of intervals, it is valid for a year, a month or a day: the
// longest of these periods that fits into the smallest distance between two rows. If this distance is less than a day,
// the row is valid for an hour. In other files, it is always valid, as in a file of prices.
func ends(rows []intensity, intervals bool) func(from time.Time) time.Time {
	step := smallestStep(rows)
	days := int(step / (24 * time.Hour))
	switch {
	case step > 0 && step <= time.Hour || intervals && days == 0:
		return func(from time.Time) time.Time { return from.Add(time.Hour) }
	case !intervals:
		return func(time.Time) time.Time { return forever }
	case days >= 365:
		return func(from time.Time) time.Time { return from.AddDate(1, 0, 0) }
	case days >= 28:
		return func(from time.Time) time.Time { return from.AddDate(0, 1, 0) }
	}
	return func(from time.Time) time.Time { return from.AddDate(0, 0, 1) }
}

// smallestStep returns the smallest distance between a row without an end and the previous row. It returns 0 if there
// are no such rows.
func smallestStep(rows []intensity) (step time.Duration) {
	for i := 1; i < len(rows); i++ {
		if d := rows[i].from.Sub(rows[i-1].from); !rows[i-1].from.IsZero() && rows[i].until.IsZero() && d > 0 && (step == 0 || d < step) {
			step = d
		}
	}
	return step
}

func (c *Carbon) at(cluster string, at time.Time) (float64, bool) {
	all := c.zones[cmp.Or(c.clusters[cluster], c.only)]
	i, found := slices.BinarySearchFunc(all, at, func(x segment, at time.Time) int { return x.from.Compare(at) })
	if !found {
		i--
	}
	if i < 0 {
		return 0, false
	}
	return all[i].grams, all[i].known
}

// changes calls the function add for each time at which an intensity begins or ends.
func (c *Carbon) changes(add func(time.Time)) {
	for _, all := range c.zones {
		for _, x := range all {
			add(x.from)
		}
	}
}
