package gpu_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

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
		{"inner spaces", "Acme DGX 9000", "Acme DGX 9000"},
		{"case stays", "aBcD", "aBcD"},
		{"trimmed", "  1650923000417 \n", "1650923000417"},
		{"padded with NUL", "1650923000417\x00\x00\x00", "1650923000417"},
		{"zeros inside", "1000000000000", "1000000000000"},
		{"hex that is not a placeholder", "0xff10", "0xff10"},
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
		{"UUID from a firmware kit", "03000200-0400-0500-0006-000700080009", ""},
		{"0xff bytes", strings.Repeat("\xff", 16), ""},
		{"0xff bytes, decoded", strings.Repeat("\ufffd", 16), ""},
		{"0xff bytes in hex", "ffffffffffffffff", ""},
		{"to be filled", "To Be Filled By O.E.M.", ""},
		{"default string", "Default string", ""},
		{"unspecified", "Not Specified", ""},
		{"counting", "0123456789", ""},
		{"product name", "System Product Name", ""},
		{"padded placeholder", "  None  ", ""},
		{"template", "$(DEFAULT_STRING)", ""},
		{"words with an SMBIOS type", "Type2 - Board Serial Number", ""},
		{"words for a chassis", "OEM Chassis Serial Number", ""},
		{"counting in hex", "0123456789ABCDEF", ""},
		{"counting twice, in hex", "01234567890123456789AB", ""},
		{"counting after letters", "BSN12345678901234567", ""},
		{"counting after a dash", "Asset-1234567890", ""},
		{"repeated", "1111111", ""},
		{"two repeated", "A5A5A5A5A5", ""},
		{"a model of a vendor's system", "System x3650 M5", "System x3650 M5"},
		{"a tag with a word", "Asset 004711", "Asset 004711"},
		{"an old sequential tag", "000123456", "000123456"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := gpu.Identity(tt.give); got != tt.want {
				t.Errorf("Identity(%q) = %q, want %q", tt.give, got, tt.want)
			}
		})
	}
}

// Identity must return a part of its input. A second call must not change the result.
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
			t.Errorf("Identity(%q) = %q, but Identity of this result = %q", s, got, again)
		}
	})
}

// Identity must accept serial numbers in the formats of vendors, unless they consist of one repeated character.
func TestIdentitySerials(t *testing.T) {
	const (
		digits  = "0123456789"
		letters = "ABCDEFGHJKLMNPRSTUVWXYZ"
		all     = digits + letters
	)
	shapes := map[string][]string{ // each part is either an alphabet for random characters or a constant
		"NVIDIA":     {"1", "3256", digits, digits, digits, digits, digits, digits, digits, digits, digits, digits, digits},
		"Dell":       {all, all, all, all, all, all, all},
		"HPE":        {letters, letters, letters, digits, digits, digits, digits, all, all, all},
		"Lenovo":     {"JS", digits, digits, all, all, all, all, all},
		"Supermicro": {"SEA", digits, digits, digits, digits, digits, digits, "X", digits, digits, digits, digits, digits, digits, digits},
		"Mellanox":   {"M", "T", digits, digits, digits, digits, "X", digits, digits, all, all, all},
		"AMD":        {"P", "C", "B", digits, digits, digits, digits, digits, digits, "-", digits, digits, digits, digits},
		"asset":      {digits, digits, digits, digits, digits, digits},
	}
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for name, shape := range shapes {
		for range 100_000 {
			var serial strings.Builder
			for _, alphabet := range shape {
				serial.WriteByte(alphabet[r.IntN(len(alphabet))])
			}
			s := serial.String()
			if gpu.Identity(s) != s && strings.Count(s, s[:1]) != len(s) {
				t.Fatalf("%s: Identity(%q) is %q, seed %d", name, s, gpu.Identity(s), seed)
			}
		}
	}
}
