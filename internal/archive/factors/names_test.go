package factors_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/factors"
)

func TestManyNames(t *testing.T) {
	const most = 10_000
	if names, err := factors.ReadNames(strings.NewReader(strings.Repeat("a\n", most)), ""); err != nil || len(names) != most {
		t.Errorf("%d names, %v", len(names), err)
	}
	if _, err := factors.ReadNames(strings.NewReader(strings.Repeat("a\n", most+1)), ""); err == nil || !strings.Contains(err.Error(), "line 10001: more than 10000 names") {
		t.Errorf("error is %v", err)
	}
}

// If no line contains separators or quotes, the names must be the lines, in their order. If the lines are a column of a
// table, ReadNames must return the same names.
func FuzzNames(f *testing.F) {
	f.Add("1653924023101\n\n 1653924023102 \r\nGPU-7\n", "x")
	f.Add("\ufeffnode-1\nnode-1\n", "Serial")
	f.Add("Serial Number\nS1\n", "Asset, tag")
	f.Fuzz(func(t *testing.T, text, head string) {
		names, err := factors.ReadNames(strings.NewReader(text), "")
		if strings.ContainsAny(text, "\",;\r\ufeff") || err != nil || strings.ContainsFunc(text, func(r rune) bool { return r > 127 || r < 32 && r != '\n' }) {
			return // the names in such a text are not predictable
		}
		var want []string
		for line := range strings.SplitSeq(text, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				want = append(want, line)
			}
		}
		plain := strings.NewReplacer(" ", "", "_", "", "-", "").Replace(strings.ToLower(want[0]))
		if plain == "serial" || plain == "serialnumber" || plain == "partserial" {
			want = want[1:]
		}
		if !slices.Equal(names, want) {
			t.Errorf("%q: got %q, want %q", text, names, want)
		}
		if strings.ContainsAny(head, "\",;\r\n\ufeff") || strings.TrimSpace(head) != head || head == "" || head == "other" {
			return
		}
		table := "other," + head + "\n"
		for _, name := range want {
			table += "1," + name + "\n"
		}
		if len(want) == 0 {
			return
		}
		if got, err := factors.ReadNames(strings.NewReader(table), head); err != nil || !slices.Equal(got, want) {
			t.Errorf("column %q of %q: got %q, %v, want %q", head, table, got, err, want)
		}
	})
}
