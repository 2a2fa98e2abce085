package print

import (
	"regexp"
	"strings"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

var (
	// special matches the characters that begin inline elements of Markdown, including GitHub's
	// extensions: math, mentions and links without brackets.
	special = regexp.MustCompile("[\\\\`*_\\[\\]<>#|~&!$@]|:/|(?i:www)\\.")
	// start matches a text that begins a list, or that underlines a heading.
	start = regexp.MustCompile(`^([-+=]|\d+[.)])`)
)

// escape returns a printable text as Markdown that stays within a line. In CommonMark, any
// punctuation after a backslash is text.
func escape(text string) string {
	return special.ReplaceAllStringFunc(text, func(found string) string {
		last := len(found) - 1
		if found == ":/" {
			last = 0
		}
		return found[:last] + `\` + found[last:]
	})
}

// paragraph returns a text as a Markdown paragraph.
func paragraph(text string) string {
	text = escape(strings.TrimSpace(labelvalue.Printable(text)))
	return start.ReplaceAllStringFunc(text, func(found string) string {
		last := len(found) - 1
		return found[:last] + `\` + found[last:]
	})
}
