package nodelabel

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// maxValue is the longest value that the API server accepts.
const maxValue = 63

// legal makes any string a valid label value: it replaces illegal characters by dashes, trims
// both ends to a letter or digit, and shortens a value that is too long to its start and a hash
// of the whole. The result may be empty. The API server would reject all labels for one invalid
// value.
func legal(raw string) string {
	v := strings.Map(func(c rune) rune {
		if alphanumeric(c) || c == '.' || c == '_' || c == '-' {
			return c
		}
		return '-'
	}, raw)
	v = strings.TrimFunc(v, func(c rune) bool { return !alphanumeric(c) })
	if len(v) <= maxValue {
		return v
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(raw))
	return fmt.Sprintf("%s-%016x", v[:maxValue-17], h.Sum64())
}

func alphanumeric(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
