package cli

import (
	"errors"
	"regexp"
)

// Pattern is a flag that holds a regular expression.
type Pattern struct{ *regexp.Regexp }

// MustPattern returns the pattern of an expression that is known to be good.
func MustPattern(expr string) *Pattern { return &Pattern{regexp.MustCompile(expr)} }

// MarshalText implements [encoding.TextMarshaler].
func (p Pattern) MarshalText() ([]byte, error) {
	if p.Regexp == nil {
		return nil, nil
	}
	return []byte(p.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler]. An empty expression would match
// whatever there is.
func (p *Pattern) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		return errors.New("is empty, which matches everything; for nothing write ^$")
	}
	p.Regexp, err = regexp.Compile(string(text))
	return err
}
