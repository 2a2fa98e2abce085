package ask

import (
	"cmp"
	"context"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/factors"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// impact answers with inputs for the Impact Framework of the Green Software Foundation. The inputs contain the energy
// of each group and hour in kWh and, if --carbon is set, the emissions in grams.
func (q *question) impact(ctx context.Context) (print.Answer, error) {
	columns, err := grouping(q.By)
	if err != nil {
		return print.Answer{}, err
	}
	a := &account{by: columns, unknown: make(map[string]int64)}
	a.of, a.notices = q.billed()
	a.of.By = compact(append([]string{"cluster", "hour", "reason"}, stored(columns)...))
	st, err := q.source.Statement(ctx, a.of)
	if err != nil {
		return print.Answer{}, err
	}
	if err := q.complete(a, st.Hours); err != nil {
		return print.Answer{}, err
	}
	var all []input
	for _, c := range st.Charges {
		if c.Energy == 0 {
			continue
		}
		grams, known := q.factors.Grams(factors.Use{Cluster: c.Cluster, Hour: c.Hour, Energy: c.Energy})
		if !known && q.factors.Carbon != nil {
			a.unknown[c.Cluster] += c.Energy
		}
		all = append(all, input{component(c, columns), focusTime(c.Hour), float64(c.Energy) / 3.6e9 * q.factors.PUE.Of(c.Cluster), grams, !known})
	}
	a.unknownIntensities(q.factors)
	answer := inputColumns.answer(all...)
	answer.Notices = a.notices
	return answer, nil
}

// input describes a group in an hour, with its energy in kWh and its emissions in grams.
type input struct {
	component, timestamp string
	energy, grams        float64
	unknown              bool // whether the emissions are unknown
}

// inputColumns contains the columns of an input for the Impact Framework.
var inputColumns = columns[input]{
	{"component", "", print.Text, func(i input) any { return i.component }},
	{"timestamp", "", print.Text, func(i input) any { return i.timestamp }},
	{"duration", "", print.Text, func(input) any { return int64(time.Hour / time.Second) }},
	{"energy", "", print.Text, func(i input) any { return i.energy }},
	{"grid/carbon-intensity", "", print.Text, func(i input) any { return unless(i.unknown, i.grams/i.energy) }},
	{"carbon", "", print.Text, func(i input) any { return unless(i.unknown, i.grams) }},
}

// component returns the name of a group.
func component(c table.Charge, columns []string) (name string) {
	if c.Reason != "" {
		return cmp.Or(c.Cluster, "cluster") + "/unattributed"
	}
	name = cmp.Or(c.Cluster, "cluster")
	for _, column := range columns {
		name += "/" + cmp.Or(valueOf(&c, column), "unknown")
	}
	return name
}
