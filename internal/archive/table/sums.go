package table

import (
	"slices"
	"time"
)

// Sums adds up the charges and corrections of one cluster in one month.
type Sums struct {
	cluster string
	month   time.Time
	all     []*Charge // sums in the order of their first rows
	sums    map[Charge]*Charge
}

// NewSums returns empty sums.
func NewSums(cluster string, month time.Time) *Sums {
	return &Sums{cluster: cluster, month: month, sums: make(map[Charge]*Charge)}
}

// Add adds a row of charges or corrections. models contains the models on the day of the row.
func (s *Sums) Add(t Table, row []any, models *Models) {
	hour, node, uuid := t.value(row, "hour").(time.Time), t.value(row, "node").(string), t.value(row, "uuid").(string)
	c := Charge{Cluster: s.cluster, Hour: s.month, Model: models.Of(hour.UnixMilli(), node, uuid)}
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
