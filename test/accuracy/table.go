package accuracy

import (
	"fmt"
	"strings"

	"github.com/gpuledger/gpuledger/test/markdown"
)

// Table returns results as a table. All numbers are percentages of the GPU's energy; the
// errors of the other rules are from perfect sight, as is the signal's.
func Table(results []Result) *markdown.Table {
	t := markdown.NewTable("whose energy", "truth", "model's error", "perfect sight", "gpuledger", "signal's error", "± 2σ of the samples",
		"pid info", "its error", "SM share", "its error")
	for _, r := range results {
		t.Add("**" + r.Name + "**")
		all := Owner{Name: "all"}
		for _, o := range r.Owners {
			t.Add(o.cells()...)
			if o.Sample {
				continue
			}
			all.Truth, all.Perfect, all.Charged = all.Truth+o.Truth, all.Perfect+o.Perfect, all.Charged+o.Charged
			all.PIDInfo, all.SMShare = all.PIDInfo+o.PIDInfo, all.SMShare+o.SMShare
		}
		t.Add(all.cells()...)
	}
	return t
}

// cells are a row.
func (o *Owner) cells() []string {
	bound := "–"
	if o.Bound > 0 {
		bound = percent(o.Bound)
	}
	return []string{
		o.Name,
		percent(o.Truth), signed(o.Model()), percent(o.Perfect),
		percent(o.Charged), signed(o.Signal()), bound,
		percent(o.PIDInfo), signed(o.PIDInfo - o.Perfect),
		percent(o.SMShare), signed(o.SMShare - o.Perfect),
	}
}

func percent(share float64) string { return fmt.Sprintf("%.1f", 100*share) }

// signed is an error with its sign, none if it is nothing.
func signed(share float64) string {
	if s := fmt.Sprintf("%+.1f", 100*share); s != "+0.0" && s != "-0.0" {
		return strings.Replace(s, "-", "−", 1)
	}
	return "0.0"
}
