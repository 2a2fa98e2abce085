package nodelabel

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// maxValue is the longest value that the API server accepts.
const maxValue = 63

// legal makes a label value out of any string: each illegal character becomes a
// dash, what is no letter or digit is cut off both ends, and a value that is too
// long keeps its beginning and gets a hash of the whole. Empty means that nothing
// was left. One illegal value would make the API server refuse all of them.
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
