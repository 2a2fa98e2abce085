// Package labelvalue makes any string a valid label value.
package labelvalue

import (
	"strings"
	"unicode/utf8"
)

// maxBytes limits a value. Names in Kubernetes have at most 253 bytes; annotations and firmware
// strings have no limit.
const maxBytes = 256

// Valid returns s as valid UTF-8, cut at a rune boundary if it is too long. An invalid value
// would fail the whole scrape.
func Valid(s string) string {
	if len(s) <= maxBytes && utf8.ValidString(s) {
		return s
	}
	return cut(strings.ToValidUTF8(cut(s), "\uFFFD"))
}

func cut(s string) string {
	if len(s) <= maxBytes {
		return s
	}
	end := maxBytes
	for end > maxBytes-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
