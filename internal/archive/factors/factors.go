package factors

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Files contains the values of the flags.
type Files struct {
	Assets, Columns string
	Prices          string
	Carbon, Zones   string
	PUE             string
	RMA             string
}

// Register adds the flags for prices, carbon intensity and PUE.
func (f *Files) Register(fs *flag.FlagSet) {
	fs.StringVar(&f.Prices, "prices", "", "CSV `file` of prices, with the columns from, until, cluster, model, per_kwh, per_gpu_hour, currency; the last row that matches is used")
	fs.StringVar(&f.Carbon, "carbon", "", "CSV `file` of carbon intensities, with the columns from, until, zone, grams_per_kwh, or the columns of Electricity Maps")
	fs.StringVar(&f.Zones, "carbon.zones", "", "zone of each cluster in the --carbon file, such as east=DE,west=US-CAL-CISO; not needed if the file contains only one zone")
	fs.StringVar(&f.PUE, "pue", "", "power usage effectiveness of the sites: a number, or a number for each cluster, such as east=1.3,west=1.15")
}

// Factors contains the content of the files. The zero value has no content.
type Factors struct {
	Assets *Assets
	RMA    *RMA
	Prices Prices
	Carbon *Carbon // nil if no file is set
	PUE    PUE
}

// Read reads the files whose flags are set.
func (f Files) Read() (all Factors, err error) {
	var failed [5]error
	all.Assets, failed[0] = readAssets(f.Assets, f.Columns)
	all.RMA, failed[1] = readRMA(f.RMA)
	all.Prices, failed[2] = readPrices(f.Prices)
	all.Carbon, failed[3] = readCarbon(f.Carbon, f.Zones)
	all.PUE, failed[4] = parsePUE(f.PUE)
	return all, errors.Join(failed[:]...)
}

// Money reports whether there are prices.
func (f Factors) Money() bool { return len(f.Prices) > 0 }

// Timed reports whether any price or intensity depends on the time.
func (f Factors) Timed() bool {
	return f.Carbon != nil || slices.ContainsFunc(f.Prices, func(p Price) bool { return !p.From.IsZero() || !p.Until.IsZero() })
}

// Parts divides a period into parts with constant prices and intensities, and returns the starts of the parts. The
// first part starts at the time from. All other parts start at full hours.
func (f Factors) Parts(from, until time.Time) []time.Time {
	parts := []time.Time{from}
	add := func(at time.Time) {
		if at = at.Add(time.Hour - 1).Truncate(time.Hour); at.After(from) && at.Before(until) {
			parts = append(parts, at)
		}
	}
	for _, p := range f.Prices {
		add(p.From)
		add(p.Until)
	}
	if f.Carbon != nil {
		f.Carbon.changes(add)
	}
	slices.SortFunc(parts, time.Time.Compare)
	return slices.CompactFunc(parts, time.Time.Equal)
}

// Use contains energy and time whose costs or emissions are computed.
type Use struct {
	Cluster, Model string
	Hour           time.Time // start of the hour, or of a part (see [Factors.Parts])
	Energy         int64     // mJ
	GPUTime        int64     // ms
}

const (
	kilowattHour = 3.6e9  // mJ
	hour         = 3600e3 // ms
)

// Cost returns the price of u. It is the price of the energy times the PUE, plus the price of the GPU hours. known is
// false if no price matches.
func (f Factors) Cost(u Use) (cost float64, known bool) {
	perKWh, perHour, known := f.Prices.at(u)
	return float64(u.Energy)/kilowattHour*f.PUE.Of(u.Cluster)*perKWh + float64(u.GPUTime)/hour*perHour, known
}

// Grams returns the emissions of u in grams of CO2 equivalent. They are the energy times the PUE, times the carbon
// intensity in this hour. known is false if the intensity is unknown.
func (f Factors) Grams(u Use) (grams float64, known bool) {
	if f.Carbon == nil {
		return 0, false
	}
	intensity, known := f.Carbon.at(u.Cluster, u.Hour)
	return float64(u.Energy) / kilowattHour * f.PUE.Of(u.Cluster) * intensity, known
}

// Without returns the number of hours for which the carbon intensity of a cluster is unknown.
func (f Factors) Without(cluster string, from, until time.Time) (hours int) {
	for at := from; at.Before(until); at = at.Add(time.Hour) {
		if _, known := f.Carbon.at(cluster, at); !known {
			hours++
		}
	}
	return hours
}

type list struct {
	path   string
	header []string
	places map[string]int // index of each used column, or -1 if the file has no such column
	fields []string       // fields of the current row
	long   bool           // set if a field of the current row is too long
}

// columns contains the names that each column may have. readList calls the function begin after it has read the header,
// and the function row for each row. Errors contain the path and the line. readList ignores a byte order mark, and
// spaces around the names of columns.
func readList(name, path string, columns map[string][]string, begin, row func(l *list) error) error {
	l := &list{path: "--" + name + "=" + path, places: make(map[string]int)}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("--%s: %w", name, err)
	}
	defer file.Close()
	err = parseCSV(file, func(header []string) error {
		l.header = slices.Clone(header)
		for column, names := range columns {
			l.places[column] = l.column(names...)
		}
		return begin(l)
	}, func(fields []string, line int) error {
		l.fields, l.long = fields, false
		err := row(l)
		if err == nil && l.long {
			err = fmt.Errorf("a field is longer than %d bytes", maxText)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	return nil
}

// column returns the index of the first column with one of the given names, or -1. It ignores case and spaces.
func (l *list) column(names ...string) int {
	for _, name := range names {
		for i, head := range l.header {
			if plain(head) == plain(name) {
				return i
			}
		}
	}
	return -1
}

func plain(text string) string {
	return strings.NewReplacer(" ", "", "_", "", "-", "").Replace(strings.ToLower(text))
}

func (l *list) has(column string) bool { return l.places[column] >= 0 }

// value returns "" if the file has no such column.
func (l *list) value(column string) string { return l.at(l.places[column]) }

func (l *list) at(column int) string {
	if column < 0 || column >= len(l.fields) {
		return ""
	}
	text := strings.TrimSpace(l.fields[column])
	if len(text) > maxText {
		l.long = true
		return ""
	}
	return strings.Clone(text) // a field shares the memory of its line, so it is copied
}

// parseTime reads a time in UTC. An empty text is an unknown time.
func parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly, "2006-01"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q: must be a time in UTC such as 2026-11-01 or 2026-11-01 15:00", text)
}
