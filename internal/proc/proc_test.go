package proc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	const rest = " S 1 7 7 0 -1 4194560 1450 0 3 0 12 7 0 0 20 0 1 0 9876 12845056 2210 18446744073709551615 1 1"
	tests := []struct {
		name, line string
		want       Stat
		ok         bool
	}{
		{"plain", "7 (python3)" + rest, Stat{Name: "python3", Start: 9876}, true},
		{"name with parentheses", "7 (a) S 1 (b)" + rest, Stat{Name: "a) S 1 (b", Start: 9876}, true},
		{"name with other bytes", "7 (\n\xff\"\\)" + rest, Stat{Name: "\n\xff\"\\", Start: 9876}, true},
		{"name empty", "7 ()" + rest, Stat{Start: 9876}, true},
		{"exiting", "7 (x) D 1 7 7 0 -1 4194564 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0", Stat{Name: "x", Exiting: true, Start: 5}, true},

		{"kernel thread", "7 (kswapd0) S 2 0 0 0 -1 2359360 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0", Stat{Name: "kswapd0", Kernel: true, Start: 5}, true},

		{"truncated after the name", "7 (x)", Stat{}, false},
		{"truncated before the start time", "7 (x) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0", Stat{}, false},
		{"negative start time", "7 (x) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 -5 0", Stat{}, false},
		{"flags are not a number", "7 (x) S 1 7 7 0 -1 f 0 0 0 0 0 0 0 0 20 0 1 0 5 0", Stat{}, false},
		{"reversed parentheses", ")(", Stat{}, false},
		{"empty", "", Stat{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStat([]byte(tt.line))
			if (err == nil) != tt.ok {
				t.Fatalf("parseStat(%q) error = %v, want ok = %v", tt.line, err, tt.ok)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("parseStat(%q) (-want +got):\n%s", tt.line, diff)
			}
		})
	}
}

func TestReadFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "cgroup")
	for _, size := range []int{0, 1, fileSize - 1, fileSize, fileSize + 1, 10 * fileSize} {
		want := strings.Repeat("0::/a\n", size)[:size]
		if err := os.WriteFile(name, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		var buf [fileSize]byte
		if got, err := readFile(name, buf[:0]); err != nil || string(got) != want {
			t.Errorf("file with %d bytes: read %d bytes, error %v", size, len(got), err)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add([]byte("7 (a) b) S 1 7 7 0 -1 4194560 1450 0 3 0 12 7 0 0 20 0 1 0 9876 12845056 2210"))
	f.Add([]byte("7 (x)"))
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := parseStat(line)
		if err != nil && s != (Stat{}) {
			t.Errorf("parseStat(%q) = %+v with error %v, want the zero Stat", line, s, err)
		}
	})
}
