package accuracy

import (
	"fmt"
	"io"
	"strings"
)

// head is the head of the table. Columns of numbers are aligned to the right.
const head = `
| whose energy | truth | model's error | perfect sight | gpuledger | signal's error | ± 2σ of the samples | pid info | its error | SM share | its error |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
`

// Write writes results as a table of Markdown. All numbers are percentages of the GPU's
// energy; the errors of the other rules are from perfect sight, as is the signal's.
func Write(w io.Writer, results []Result) error {
	var out strings.Builder
	out.WriteString(head[1:])
	for _, r := range results {
		fmt.Fprintf(&out, "| **%s** | | | | | | | | | | |\n", r.Name)
		all := Owner{Name: "all"}
		for _, o := range r.Owners {
			o.write(&out)
			if o.Sample {
				continue
			}
			all.Truth, all.Perfect, all.Charged = all.Truth+o.Truth, all.Perfect+o.Perfect, all.Charged+o.Charged
			all.PIDInfo, all.SMShare = all.PIDInfo+o.PIDInfo, all.SMShare+o.SMShare
		}
		all.write(&out)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// write adds a row.
func (o *Owner) write(w io.Writer) {
	bound := "–"
	if o.Bound > 0 {
		bound = percent(o.Bound)
	}
	cells := []string{
		o.Name,
		percent(o.Truth), signed(o.Model()), percent(o.Perfect),
		percent(o.Charged), signed(o.Signal()), bound,
		percent(o.PIDInfo), signed(o.PIDInfo - o.Perfect),
		percent(o.SMShare), signed(o.SMShare - o.Perfect),
	}
	fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
}

func percent(share float64) string { return fmt.Sprintf("%.1f", 100*share) }

// signed is an error with its sign, none if it is nothing.
func signed(share float64) string {
	if s := fmt.Sprintf("%+.1f", 100*share); s != "+0.0" && s != "-0.0" {
		return strings.Replace(s, "-", "−", 1)
	}
	return "0.0"
}
