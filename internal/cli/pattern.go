package cli

import (
	"errors"
	"regexp"
)

// Pattern is a flag with a regular expression.
type Pattern struct{ *regexp.Regexp }

// MustPattern compiles a regular expression. It panics if the expression is invalid.
func MustPattern(expr string) *Pattern { return &Pattern{regexp.MustCompile(expr)} }

// MarshalText implements [encoding.TextMarshaler].
func (p Pattern) MarshalText() ([]byte, error) {
	if p.Regexp == nil {
		return nil, nil
	}
	return []byte(p.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler]. It rejects an empty expression, because such an expression
// matches everything.
func (p *Pattern) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		return errors.New("must not be empty, because an empty expression matches everything; use ^$ to match nothing")
	}
	p.Regexp, err = regexp.Compile(string(text))
	return err
}
