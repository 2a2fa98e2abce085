package ask

import (
	"cmp"
	"context"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/factors"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// impact answers with the inputs of the Impact Framework of the Green Software Foundation: the energy of
// each group and hour in kWh, and with --carbon its carbon emissions in grams.
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
	answer := print.Answer{Columns: []print.Column{{Name: "component"}, {Name: "timestamp"}, {Name: "duration"}, {Name: "energy"}, {Name: "grid/carbon-intensity"}, {Name: "carbon"}}}
	if err := q.complete(a, st.Hours); err != nil {
		return answer, err
	}
	for _, c := range st.Charges {
		if c.Energy == 0 {
			continue
		}
		row := []any{component(c, columns), focusTime(c.Hour), int64(time.Hour / time.Second), float64(c.Energy) / 3.6e9 * q.factors.PUE.Of(c.Cluster), nil, nil}
		if grams, known := q.factors.Grams(factors.Use{Cluster: c.Cluster, Hour: c.Hour, Energy: c.Energy}); known {
			row[4], row[5] = grams/row[3].(float64), grams
		} else if q.factors.Carbon != nil {
			a.unknown[c.Cluster] += c.Energy
		}
		answer.Rows = append(answer.Rows, row)
	}
	a.unknownIntensities(q.factors)
	answer.Notices = a.notices
	return answer, nil
}

// component is the name of a group.
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
