package labelvalue_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

func TestValid(t *testing.T) {
	tests := []struct{ name, give, want string }{
		{"short", "train-0", "train-0"},
		{"empty", "", ""},
		{"the maximum length", strings.Repeat("a", 256), strings.Repeat("a", 256)},
		{"too long", strings.Repeat("a", 257), strings.Repeat("a", 256)},
		{"cut before a rune", strings.Repeat("a", 255) + "é", strings.Repeat("a", 255)},
		{"no UTF-8", "a\xff\xfeb", "a\uFFFDb"},
		{"too long, without the start of a rune", strings.Repeat("\x80", 300), "\uFFFD"},
		{"longer after it was made valid", strings.Repeat("a\xff", 128), strings.Repeat("a\uFFFD", 64)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := labelvalue.Valid(tt.give); got != tt.want {
				t.Errorf("Valid(%q) = %q, want %q", tt.give, got, tt.want)
			}
		})
	}
}

// FuzzValid checks that any string becomes a valid label value, and that a valid value does not change.
func FuzzValid(f *testing.F) {
	f.Add("train-0")
	f.Add(strings.Repeat("\xf0\x9f\x98", 100))
	f.Fuzz(func(t *testing.T, s string) {
		got := labelvalue.Valid(s)
		if !utf8.ValidString(got) || len(got) > 256 || labelvalue.Valid(got) != got {
			t.Errorf("Valid(%q) = %q", s, got)
		}
	})
}
