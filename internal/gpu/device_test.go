package gpu_test

import (
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

func TestIdentity(t *testing.T) {
	tests := []struct {
		name string
		give string
		want string
	}{
		{"serial", "1650923000417", "1650923000417"},
		{"alphanumeric serial", "MT2411X00F1Q", "MT2411X00F1Q"},
		{"inner spaces stay", "Acme DGX 9000", "Acme DGX 9000"},
		{"case stays", "aBcD", "aBcD"},
		{"trimmed", "  1650923000417 \n", "1650923000417"},
		{"padded with NUL", "1650923000417\x00\x00\x00", "1650923000417"},
		{"zeros inside", "1000000000000", "1000000000000"},
		{"hex that is no filling", "0xff10", "0xff10"},
		{"few f", "FF", "FF"},
		{"unicode", "Größe-7", "Größe-7"},
		{"name that contains a placeholder", "None-Such 12", "None-Such 12"},

		{"empty", "", ""},
		{"blank", " \t\r\n", ""},
		{"NULs", "\x00\x00\x00\x00", ""},
		{"NVML", "N/A", ""},
		{"nvidia-smi", "[Not Supported]", ""},
		{"DCGM", "<<<NULL>>>", ""},
		{"cloud zeros", "0000000000000", ""},
		{"dashes", "--", ""},
		{"dots", "....................", ""},
		{"hex zero", "0x00000000", ""},
		{"crossed out", "XXXXXXXX", ""},
		{"nil UUID", "00000000-0000-0000-0000-000000000000", ""},
		{"full UUID", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", ""},
		{"UUID of a firmware kit", "03000200-0400-0500-0006-000700080009", ""},
		{"0xff bytes", strings.Repeat("\xff", 16), ""},
		{"0xff bytes, decoded", strings.Repeat("\ufffd", 16), ""},
		{"0xff bytes in hex", "ffffffffffffffff", ""},
		{"to be filled", "To Be Filled By O.E.M.", ""},
		{"default string", "Default string", ""},
		{"unspecified", "Not Specified", ""},
		{"counting", "0123456789", ""},
		{"product name", "System Product Name", ""},
		{"padded placeholder", "  None  ", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := gpu.Identity(tt.give); got != tt.want {
				t.Errorf("Identity(%q) = %q, want %q", tt.give, got, tt.want)
			}
		})
	}
}

// FuzzIdentity checks that the result is part of the input, and that Identity returns it
// unchanged.
func FuzzIdentity(f *testing.F) {
	for _, s := range []string{"1650923000417\x00", " N/A ", "\xff\xff", "x\x00x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := gpu.Identity(s)
		if !strings.Contains(s, got) {
			t.Errorf("Identity(%q) = %q, want a part of the input", s, got)
		}
		if again := gpu.Identity(got); again != got {
			t.Errorf("Identity(%q) = %q, Identity of the result = %q", s, got, again)
		}
	})
}
