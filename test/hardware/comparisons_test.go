package main

import (
	"context"
	"errors"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPlaces checks that the file of each assumption exists and contains the name of the assumption. A constant must
// have the value on the page.
func TestPlaces(t *testing.T) {
	for _, c := range comparisons {
		path := filepath.Join("../..", c.place)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(string(text), c.constant) {
			t.Errorf("%s: %s does not contain %q", c.question, c.place, c.constant)
		}
		if c.code == "" {
			continue
		}
		if got := constant(t, path, c.constant); got != c.code {
			t.Errorf("%s: %s is %q, want %q", c.question, c.constant, got, c.code)
		}
	}
}

func constant(t *testing.T, path, name string) (text string) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && s.Names[0].Name == name && len(s.Values) == 1 {
			var out strings.Builder
			if err := format.Node(&out, set, s.Values[0]); err != nil {
				t.Fatal(err)
			}
			text = out.String()
		}
		return true
	})
	return text
}

func TestOutcomes(t *testing.T) {
	for _, tt := range []struct {
		value float64
		err   error
		want  finding
	}{
		{1, nil, agrees},
		{2, nil, agrees},
		{0.99, nil, differs},
		{2.01, nil, differs},
		{math.NaN(), nil, notRun},
		{1, errors.New("no permission"), notRun},
	} {
		c := comparison{low: 1, high: 2, measure: func(context.Context, *bench) (measured, error) { return measured{value: tt.value}, tt.err }}
		r := new(bench).compareOne(t.Context(), c)
		if r.finding != tt.want || (r.reason != "") != (tt.want == notRun) {
			t.Errorf("%v, %v: %q (%s), want %q", tt.value, tt.err, r.finding, r.reason, tt.want)
		}
	}
}

func TestPage(t *testing.T) {
	p := page{Model: "GPU", Driver: "570.1", Version: "0.1", Limit: 700, Began: time.Unix(0, 0).UTC(), Took: 3 * time.Minute, Notes: []string{"busy."}}
	for _, r := range []result{
		{measured: measured{1, "100 ms"}},
		{measured: measured{2, "400 ms"}, finding: differs},
		{finding: notRun, reason: "no | daemon\nhere"},
	} {
		r.comparison = comparison{question: "q", assumed: "a", place: "p.go", constant: "c", code: "5"}
		p.Results = append(p.Results, r)
	}
	text := strings.Join(strings.Fields(p.String()), " ")
	for _, want := range []string{
		"# GPU Driver 570.1, power limit 700 W, gpuledger 0.1, 1970-01-01, 3m0s.",
		"1 assumptions agree, **1 differ**, 1 were not compared. **Note:** busy.",
		"| q | a | `p.go`: c | 100 ms | agrees |",
		"400 ms | **differs** |",
		"not run: no / daemon here |",
		"| `c`: q | `5` | 400 ms |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, p)
		}
	}
}
