package table_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func nodeIn(name string) string {
	rows := table.GPUHours.Rows(&table.Hour{GPUs: []table.GPU{{Node: name}}})
	return rows[0][2].(string)
}

// A string up to the limit must not be changed. A longer string must be marked, and must differ from other long
// strings.
func TestLongTexts(t *testing.T) {
	longest := strings.Repeat("é", table.MaxText/2)
	for _, name := range []string{"", "n", longest, "zażółć 🎲", "a~b"} {
		if got := nodeIn(name); got != name {
			t.Errorf("%q is filed as %q", name, got)
		}
	}
	if got := nodeIn("a\x00b\xffc"); !strings.HasPrefix(got, "a\ufffdb\ufffdc~") {
		t.Errorf("a name with invalid characters is filed as %q", got)
	}
	a, b := nodeIn(longest+"a"), nodeIn(longest+"b")
	if a == b || !strings.HasPrefix(a, "éé") || !strings.Contains(a, "~") {
		t.Errorf("long names are filed as %q and %q", a, b)
	}
}

// Every stored string must be valid UTF-8, have no zero bytes and be within the limit. Storing a stored string again
// must not change it.
func FuzzTexts(f *testing.F) {
	f.Add("n")
	f.Add(strings.Repeat("\xff", 300))
	f.Add(strings.Repeat("🎲", 64) + "\x00")
	f.Fuzz(func(t *testing.T, name string) {
		got := nodeIn(name)
		if len(got) > table.MaxText || !utf8.ValidString(got) || strings.Contains(got, "\x00") || nodeIn(got) != got || name != "" && got == "" {
			t.Errorf("%q is filed as %q", name, got)
		}
	})
}
