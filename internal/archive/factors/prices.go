package factors

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Price is a row of a price file. It contains prices for certain clusters, models and times.
type Price struct {
	From, Until      time.Time // zero means no limit
	Cluster, Model   string    // empty matches all
	PerKWh, PerHour  float64
	hasKWh, hasHours bool
	Currency         string
}

// Prices contains the rows of a price file. Of the matching rows, the last row with a price of energy sets the price of
// energy. The last row with a price of GPU hours sets the price of GPU hours.
type Prices []Price

func readPrices(path string) (all Prices, err error) {
	if path == "" {
		return nil, nil
	}
	columns := map[string][]string{"until": {"until", "to"}}
	for _, name := range []string{"cluster", "model", "currency", "from", "per_kwh", "per_gpu_hour"} {
		columns[name] = []string{name}
	}
	err = readList("prices", path, columns, func(l *list) error {
		if !l.has("per_kwh") && !l.has("per_gpu_hour") {
			return errors.New("the columns per_kwh and per_gpu_hour are missing: add at least one of them")
		}
		return nil
	}, func(l *list) error {
		p, err := parsePrice(l)
		switch {
		case err != nil:
			return err
		case len(all) > 0 && p.Currency != all[0].Currency:
			return fmt.Errorf("currency %q: all rows must have the same currency, %q", p.Currency, all[0].Currency)
		case len(all) == maxPrices:
			return fmt.Errorf("%w: more than %d prices", errLarge, maxPrices)
		}
		all = append(all, p)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("--prices=%s: the file contains no prices", path)
	}
	return all, err
}

// maxPrices is low, because each use is compared with all prices.
const maxPrices = 20_000

func parsePrice(l *list) (p Price, err error) {
	p = Price{Cluster: l.value("cluster"), Model: l.value("model"), Currency: strings.ToUpper(l.value("currency"))}
	var failed [4]error
	p.From, failed[0] = parseTime(l.value("from"))
	p.Until, failed[1] = parseTime(l.value("until"))
	p.PerKWh, p.hasKWh, failed[2] = parseNumber(l.value("per_kwh"))
	p.PerHour, p.hasHours, failed[3] = parseNumber(l.value("per_gpu_hour"))
	return p, cmp.Or(failed[:]...)
}

// maxNumber is the largest accepted price or intensity. It keeps all sums in a statement finite.
const maxNumber = 1e9

// parseNumber parses a number from 0 to maxNumber. An empty string means that the number is unknown.
func parseNumber(text string) (n float64, known bool, err error) {
	if text == "" {
		return 0, false, nil
	}
	n, err = strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= maxNumber) {
		return 0, false, fmt.Errorf("%q: must be a number from 0 to %g", text, maxNumber)
	}
	return n, true, nil
}

// Currency returns the currency of the prices. It returns "" if the file contains no currency.
func (p Prices) Currency() string {
	if len(p) == 0 {
		return ""
	}
	return p[0].Currency
}

// ByModel reports whether any price depends on the model.
func (p Prices) ByModel() bool {
	return slices.ContainsFunc(p, func(price Price) bool { return price.Model != "" })
}

func (p *Price) matches(u Use) bool {
	return (p.Cluster == "" || p.Cluster == u.Cluster) && (p.Model == "" || p.Model == u.Model) &&
		!u.Hour.Before(p.From) && (p.Until.IsZero() || u.Hour.Before(p.Until))
}

// at returns false if no price matches.
func (p Prices) at(u Use) (perKWh, perHour float64, known bool) {
	for _, price := range p {
		if !price.matches(u) {
			continue
		}
		if price.hasKWh {
			perKWh, known = price.PerKWh, true
		}
		if price.hasHours {
			perHour, known = price.PerHour, true
		}
	}
	return perKWh, perHour, known
}

// PUE contains the power usage effectiveness of each cluster. The empty name means all other clusters.
type PUE map[string]float64

// Of returns the power usage effectiveness of a cluster. It returns 1 if the value is unknown.
func (p PUE) Of(cluster string) float64 {
	return cmp.Or(p[cluster], p[""], 1)
}

func parsePUE(text string) (PUE, error) {
	all := make(PUE)
	for field := range strings.SplitSeq(text, ",") {
		cluster, number, named := strings.Cut(strings.TrimSpace(field), "=")
		if !named {
			cluster, number = "", cluster
		}
		if number == "" && !named {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || !(n >= 1 && n <= 10) {
			return nil, fmt.Errorf("--pue=%s: must be a number from 1 to 10, or a number for each cluster, such as east=1.3,west=1.15", text)
		}
		all[cluster] = n
	}
	return all, nil
}
