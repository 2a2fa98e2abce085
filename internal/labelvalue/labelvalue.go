// Package labelvalue converts any string to a valid label value. It also converts any label value to a text that is
// safe for a terminal.
package labelvalue

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxBytes is the maximum length of a value. Names in Kubernetes have at most 253 bytes, but annotations and firmware
// strings have no limit.
const maxBytes = 256

// Valid returns s as valid UTF-8. It truncates a long string at a rune boundary. A single invalid value would make the
// whole scrape fail.
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

// Printable escapes characters that would move the cursor, change colours or reverse the direction of text. The result
// is one line of valid UTF-8.
func Printable(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func hidden(r rune) bool { return !unicode.IsPrint(r) }
