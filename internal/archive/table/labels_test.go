package table_test

import (
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func TestLabels(t *testing.T) {
	long := strings.Repeat("x", 250)
	tests := map[string]struct {
		values map[string]string
		want   string
	}{
		"none":      {nil, ""},
		"sorted":    {map[string]string{"team": "blue", "cost_center": "4711"}, "cost_center=4711,team=blue"},
		"no value":  {map[string]string{"team": "", "app": "a"}, "app=a"},
		"a comma":   {map[string]string{"team": "blue,app=b", "app": "a"}, "app=a"},
		"an equals": {map[string]string{"team": "a=b"}, "team=a=b"},
		"not UTF-8": {map[string]string{"team": "\xff", "app": "a"}, "app=a"},
		"too long": {
			map[string]string{"a": long, "b": long, "c": long, "d": long, "e": long, "f": "1"},
			"a=" + long + ",b=" + long + ",c=" + long + ",d=" + long,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := table.JoinLabels(tt.values)
			if got != tt.want {
				t.Fatalf("labels %q, want %q", got, tt.want)
			}
			for name, value := range tt.values {
				want := ""
				if strings.Contains(","+tt.want, ","+name+"=") {
					want = value
				}
				if found := table.LabelIn(got, name); found != want {
					t.Errorf("label %s is %q in %q, want %q", name, found, got, want)
				}
			}
		})
	}
	if got := table.LabelIn("cost_center=1,center=2", "center"); got != "2" {
		t.Errorf("label center is %q, want 2", got)
	}
}
