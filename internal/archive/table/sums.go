package table

import "time"

// sumTexts are the columns by which charges are added up in [MonthlyCharges], after the model.
var sumTexts = [...]string{"namespace", "workload_kind", "workload_name", "team", "reason", "manager", "unit", "username"}

var sumAmounts = [...]string{"energy_mj", "exclusive_mj", "idle_mj", "held_ms", "gpu_ms", "active_ms", "estimated_mj", "busy_ms"}

// sumKey are the texts of a sum: the model and the columns sumTexts.
type sumKey [1 + len(sumTexts)]string

// Sums are sums of charges and corrections of a month of a cluster.
type Sums struct {
	cluster string
	month   time.Time
	models  map[string]string // by UUID
	keys    []sumKey          // in the order in which they were added
	sums    map[sumKey]*[len(sumAmounts)]int64
}

// NewSums returns empty sums. models has the models of GPUs by UUID.
func NewSums(cluster string, month time.Time, models map[string]string) *Sums {
	return &Sums{cluster: cluster, month: month, models: models, sums: make(map[sumKey]*[len(sumAmounts)]int64)}
}

// Models adds the models in rows of gpu_hours by UUID, as the databases do.
func Models(rows [][]any, to map[string]string) {
	for _, row := range rows {
		uuid := GPUHours.value(row, "uuid").(string)
		to[uuid] = max(to[uuid], GPUHours.value(row, "model").(string))
	}
}

// Add adds a row of charges or corrections.
func (s *Sums) Add(t Table, row []any) {
	key := sumKey{s.models[t.value(row, "uuid").(string)]}
	for i, name := range sumTexts {
		key[i+1] = t.value(row, name).(string)
	}
	sum := s.sums[key]
	if sum == nil {
		sum = new([len(sumAmounts)]int64)
		s.sums[key] = sum
		s.keys = append(s.keys, key)
	}
	for i, name := range sumAmounts {
		sum[i] += t.value(row, name).(int64)
	}
}

// Rows returns the sums as rows of [MonthlyCharges], with the hours in them.
func (s *Sums) Rows(hours []time.Time) (rows [][]any) {
	text := HoursText(s.month, hours)
	for _, key := range s.keys {
		values := map[string]any{"cluster": s.cluster, "month": s.month, "hours": text, "model": key[0]}
		for i, name := range sumTexts {
			values[name] = key[i+1]
		}
		for i, name := range sumAmounts {
			values[name] = s.sums[key][i]
		}
		row := make([]any, len(MonthlyCharges.Columns))
		for i, c := range MonthlyCharges.Columns {
			row[i] = values[c.Name]
		}
		rows = append(rows, row)
	}
	return rows
}
