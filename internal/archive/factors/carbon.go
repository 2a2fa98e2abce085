package factors

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Carbon has the carbon intensity of zones.
type Carbon struct {
	zones    map[string][]intensity // in the order of time
	clusters map[string]string      // zones by cluster
	only     string                 // the only zone, if there is one
}

// intensity is the carbon intensity from a moment, in grams of CO2 equivalent for a kilowatt-hour.
type intensity struct {
	from, until time.Time
	grams       float64
}

// openEnd is the time for which an intensity without an end counts: a month of monthly data.
const openEnd = 31 * 24 * time.Hour

// The names of the columns: ours, then the names in Electricity Maps' exports and API.
var (
	zoneColumns  = []string{"zone", "zone_id", "zone_key"}
	fromColumns  = []string{"from", "datetime", "datetime (utc)"}
	gramsColumns = []string{
		"grams_per_kwh", "carbon_intensity", "carbon intensity gco2eq/kwh (life cycle)", "carbon intensity gco₂eq/kwh (life cycle)",
		"carbon intensity gco2eq/kwh (lca)", "carbon intensity gco₂eq/kwh (lca)", "carbon intensity gco2eq/kwh (direct)", "carbon intensity gco₂eq/kwh (direct)",
	}
)

func readCarbon(path, zones string) (*Carbon, error) {
	if path == "" {
		return nil, nil
	}
	c := &Carbon{zones: make(map[string][]intensity), clusters: make(map[string]string)}
	for field := range strings.SplitSeq(zones, ",") {
		if cluster, zone, ok := strings.Cut(strings.TrimSpace(field), "="); ok {
			c.clusters[cluster] = zone
		} else if field != "" {
			return nil, fmt.Errorf("--carbon.zones=%s: must be zones by cluster such as east=DE,west=FR", zones)
		}
	}
	var from, until, grams, zone int
	err := readList("carbon", path, func(l *list) error {
		from, until, grams, zone = l.column(fromColumns...), l.column("until", "to"), l.column(gramsColumns...), l.column(zoneColumns...)
		if from < 0 || grams < 0 {
			return errors.New("must have the columns from and grams_per_kwh, or the columns of Electricity Maps")
		}
		return nil
	}, func(l *list) error {
		n, known, err := parseNumber(l.value(grams))
		at := intensity{grams: n}
		if err == nil {
			at.from, err = parseTime(l.value(from))
		}
		if err == nil {
			at.until, err = parseTime(l.value(until))
		}
		if name := l.value(zone); err == nil && known {
			c.zones[name] = append(c.zones[name], at)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, c.sort("--carbon=" + path)
}

func (c *Carbon) sort(path string) error {
	for zone, all := range c.zones {
		slices.SortStableFunc(all, func(a, b intensity) int { return a.from.Compare(b.from) })
		if len(c.zones) == 1 {
			c.only = zone
		}
	}
	if len(c.zones) > 1 && len(c.clusters) == 0 {
		return fmt.Errorf("%s has %d zones: set --carbon.zones", path, len(c.zones))
	}
	for cluster, zone := range c.clusters {
		if c.zones[zone] == nil {
			return fmt.Errorf("--carbon.zones: zone %q of cluster %s is not in %s", zone, cluster, path)
		}
	}
	return nil
}

// at returns the intensity in the zone of a cluster at a moment, false if it is unknown.
func (c *Carbon) at(cluster string, at time.Time) (float64, bool) {
	all := c.zones[cmp.Or(c.clusters[cluster], c.only)]
	i, found := slices.BinarySearchFunc(all, at, func(x intensity, at time.Time) int { return x.from.Compare(at) })
	if !found {
		i--
	}
	if i < 0 {
		return 0, false
	}
	return all[i].grams, at.Before(end(all, i))
}

// end returns the end of an intensity. Without one, the last one is as long as the one before.
func end(all []intensity, i int) time.Time {
	switch {
	case !all[i].until.IsZero():
		return all[i].until
	case i+1 == len(all) && i > 0:
		return all[i].from.Add(all[i].from.Sub(all[i-1].from))
	}
	return all[i].from.Add(openEnd)
}

// changes calls add with the moments at which an intensity begins or ends.
func (c *Carbon) changes(add func(time.Time)) {
	for _, all := range c.zones {
		for i, x := range all {
			add(x.from)
			add(end(all, i))
		}
	}
}
