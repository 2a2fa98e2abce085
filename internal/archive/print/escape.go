package print

import (
	"regexp"
	"strings"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

var (
	// special matches characters that begin inline elements of Markdown. They include GitHub's extensions: math,
	// mentions and links without brackets.
	special = regexp.MustCompile("[\\\\`*_\\[\\]<>#|~&!$@]|:/|(?i:www)\\.")
	// start matches text that begins a list or underlines a heading.
	start = regexp.MustCompile(`^([-+=]|\d+[.)])`)
)

// escape returns printable text as Markdown for a place within a line. In CommonMark, a punctuation character after a
// backslash is plain text.
func escape(text string) string {
	return special.ReplaceAllStringFunc(text, func(found string) string {
		last := len(found) - 1
		if found == ":/" {
			last = 0
		}
		return found[:last] + `\` + found[last:]
	})
}

func paragraph(text string) string {
	text = escape(strings.TrimSpace(labelvalue.Printable(text)))
	return start.ReplaceAllStringFunc(text, func(found string) string {
		last := len(found) - 1
		return found[:last] + `\` + found[last:]
	})
}
