package table

import (
	"slices"
	"time"
)

// Sums adds up the charges and corrections of one cluster in one month.
type Sums struct {
	cluster string
	month   time.Time
	models  map[string]string // models by UUID
	all     []*Charge         // sums in the order of their first rows
	sums    map[Charge]*Charge
}

// NewSums returns empty sums. models contains the models of GPUs by UUID.
func NewSums(cluster string, month time.Time, models map[string]string) *Sums {
	return &Sums{cluster: cluster, month: month, models: models, sums: make(map[Charge]*Charge)}
}

// Models adds the models of GPUs from rows of gpu_hours. If a GPU has several models, it selects the greatest text. The
// databases select the same model.
func Models(rows [][]any, to map[string]string) {
	for _, row := range rows {
		uuid := GPUHours.value(row, "uuid").(string)
		to[uuid] = max(to[uuid], GPUHours.value(row, "model").(string))
	}
}

// Add adds a row of charges or corrections.
func (s *Sums) Add(t Table, row []any) {
	c := Charge{Cluster: s.cluster, Hour: s.month, Model: s.models[t.value(row, "uuid").(string)]}
	for _, f := range summed {
		f.set(&c, t.value(row, f.Name))
	}
	key := c
	key.Clear()
	if s.sums[key] == nil {
		sum := key
		s.sums[key], s.all = &sum, append(s.all, &sum)
	}
	s.sums[key].Add(&c)
}

// Rows returns the sums as rows of [MonthlyCharges]. hours contains the hours that the sums include.
func (s *Sums) Rows(hours []time.Time) (rows [][]any) {
	text := HoursText(s.month, hours)
	for _, c := range s.all {
		row := make([]any, len(monthly))
		for i := range monthly {
			row[i] = monthly[i].value(nil, c)
		}
		row[slices.IndexFunc(monthly, func(f Field[Charge]) bool { return f.Name == hoursColumn })] = text
		rows = append(rows, row)
	}
	return rows
}
