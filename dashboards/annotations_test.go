package dashboards_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every dashboard must mark moved boards and lost GPUs of the selected cluster. The queries of these marks may use only
// variables of the dashboard.
func TestAnnotations(t *testing.T) {
	files, texts := dashboards(t)
	for name, text := range texts {
		var board struct {
			Annotations struct {
				List []struct {
					Name, Expr string
					Enable     bool
					Datasource source
				}
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var names []string
		for _, a := range board.Annotations.List {
			if names = append(names, a.Name); !a.Enable || a.Datasource != own || !strings.Contains(a.Expr, `cluster=~"$cluster"`) {
				t.Errorf("%s: annotation %+v", name, a)
			}
			for _, m := range used.FindAllStringSubmatch(a.Expr, -1) {
				if !strings.HasPrefix(m[1], "__") && !slices.ContainsFunc(files[name].Templating.List, func(v variable) bool { return v.Name == m[1] }) {
					t.Errorf("%s: annotation %s uses $%s, which does not exist", name, a.Name, m[1])
				}
			}
		}
		if diff := cmp.Diff([]string{"Moved boards", "Lost GPUs"}, names); diff != "" {
			t.Errorf("%s: annotations (-want +got):\n%s", name, diff)
		}
	}
}
