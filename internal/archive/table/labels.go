package table

import (
	"maps"
	"slices"
	"strings"
)

// maxLabels is the maximum length of the column labels in bytes. It is also the length of this column in MySQL.
const maxLabels = 1024

const labelsHelp = "labels of the pod that the reconciler exports, as name=value, separated by commas"

// JoinLabels returns the text of the column labels: name=value, sorted by name and separated by commas. A name has the
// form of a Prometheus label, such as cost_center for cost-center. JoinLabels omits labels without a value, and labels
// that Kubernetes does not permit. It also omits the last labels if the text would exceed 1,024 bytes.
func JoinLabels(values map[string]string) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		if value == "" || strings.Contains(value, ",") || shorten(value) != value {
			continue
		}
		pair := name + "=" + value
		if text.Len() > 0 {
			pair = "," + pair
		}
		if text.Len()+len(pair) > maxLabels {
			break
		}
		text.WriteString(pair)
	}
	return text.String()
}

// LabelIn returns the value of a label in the text of the column labels. It returns "" if the text does not contain the
// label.
func LabelIn(labels, name string) string {
	for pair := range strings.SplitSeq(labels, ",") {
		if key, value, _ := strings.Cut(pair, "="); key == name {
			return value
		}
	}
	return ""
}
