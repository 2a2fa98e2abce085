package cli

import "strings"

// List is a flag with comma-separated words. It ignores empty words and spaces around words.
type List []string

// MarshalText implements [encoding.TextMarshaler].
func (l List) MarshalText() ([]byte, error) { return []byte(strings.Join(l, ",")), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (l *List) UnmarshalText(text []byte) error {
	*l = nil
	for word := range strings.SplitSeq(string(text), ",") {
		if word = strings.TrimSpace(word); word != "" {
			*l = append(*l, word)
		}
	}
	return nil
}
