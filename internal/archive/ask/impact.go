package ask

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/factors"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// impact returns inputs for the Impact Framework of the Green Software Foundation. An input contains the energy of one
// group in one hour, in kWh. If --carbon is set, it also contains the emissions in grams.
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
	all := inputs(st.Charges, columns)
	for _, i := range all {
		i.kWh = float64(i.Energy) / 3.6e9 * q.factors.PUE.Of(i.Cluster)
		if i.grams, i.known = q.factors.Grams(i.Use); !i.known && q.factors.Carbon != nil {
			a.unknown[i.Cluster] += i.Energy
		}
	}
	a.unknownIntensities(q.factors)
	answer := inputColumns.answer(all...)
	answer.Notices = a.notices
	return answer, nil
}

type input struct {
	factors.Use
	component  string
	kWh, grams float64
	known      bool // whether the emissions are known
}

// inputs adds up the charges of each component and hour, because inputs of the same component must not overlap. One
// component may have charges with different labels or reasons. Inputs without energy are omitted.
func inputs(charges []table.Charge, columns []string) (all []*input) {
	type key struct {
		cluster, component string
		hour               int64
	}
	known := make(map[key]*input)
	for _, c := range charges {
		at := key{c.Cluster, component(c, columns), c.Hour.Unix()}
		if known[at] == nil {
			known[at] = &input{Use: factors.Use{Cluster: c.Cluster, Hour: c.Hour}, component: at.component}
			all = append(all, known[at])
		}
		known[at].Energy += c.Energy
	}
	return slices.DeleteFunc(all, func(i *input) bool { return i.Energy == 0 })
}

var inputColumns = columns[*input]{
	{"component", "", print.Text, func(i *input) any { return i.component }},
	{"timestamp", "", print.Text, func(i *input) any { return focusTime(i.Hour) }},
	{"duration", "", print.Text, func(*input) any { return int64(time.Hour / time.Second) }},
	{"energy", "", print.Text, func(i *input) any { return i.kWh }},
	{"grid/carbon-intensity", "", print.Text, func(i *input) any { return unless(!i.known, i.grams/i.kWh) }},
	{"carbon", "", print.Text, func(i *input) any { return unless(!i.known, i.grams) }},
}

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
