package nodelabel

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// maxValue is the maximum length of a label value that the API server accepts.
const maxValue = 63

// legal converts any string to a valid label value, because the API server rejects all labels if one value is invalid.
// It replaces illegal characters by dashes, and removes all characters except letters and digits from both ends. If a
// value is too long, legal returns its start and a hash of the whole value. The result may be empty.
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
