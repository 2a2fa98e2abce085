package ask

import (
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// labelsColumn is the column with the pod labels of a charge. --by accepts the columns of charges and these labels.
// Labels have their names in Prometheus, for example label_cost_center.
const labelsColumn = "labels"

// ok is false if the dimension is a column.
func labelOf(dimension string) (name string, ok bool) {
	return strings.CutPrefix(dimension, fold.LabelPrefix)
}

func isLabel(dimension string) bool {
	_, ok := labelOf(dimension)
	return ok
}

func stored(dimensions []string) []string {
	columns := slices.Clone(dimensions)
	for i, name := range columns {
		if isLabel(name) {
			columns[i] = labelsColumn
		}
	}
	return compact(columns)
}

func valueOf(c *table.Charge, dimension string) string {
	if name, ok := labelOf(dimension); ok {
		return table.LabelIn(c.Labels, name)
	}
	return *c.Text(dimension)
}

func setValue(c *table.Charge, dimension, value string) {
	name, ok := labelOf(dimension)
	if !ok {
		*c.Text(dimension) = value
		return
	}
	if c.Labels != "" {
		c.Labels += ","
	}
	c.Labels += name + "=" + value
}

// labelsOf parses a value of labelsColumn. The keys of the result are dimensions, for example label_cost_center.
func labelsOf(labels string) map[string]string {
	all := make(map[string]string)
	for pair := range strings.SplitSeq(labels, ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			all[fold.LabelPrefix+name] = value
		}
	}
	return all
}
