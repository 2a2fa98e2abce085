// Package labelvalue makes any string fit for a label of a metric.
package labelvalue

import (
	"strings"
	"unicode/utf8"
)

// maxBytes bounds a value. Names in Kubernetes end at 253 bytes; annotations and strings
// of firmware may be of any length.
const maxBytes = 256

// Valid returns s as a label value: valid UTF-8, and cut at a rune boundary if it is too
// long. One bad value would fail the whole scrape.
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
