package markdown

import (
	"fmt"
	"strings"
)

// Commands returns the commands in the console blocks of a text, without their output. A command consists of one line,
// and of its here-document if it has one.
func Commands(text string) []string {
	var found []string
	for _, block := range strings.Split(text, "```console\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, text := range strings.Split("\n"+block, "\n$ ")[1:] {
			found = append(found, command(text))
		}
	}
	return found
}

func command(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	if document, _, ok := strings.Cut(text+"\n", "\nEOF\n"); ok && strings.HasSuffix(line, "<<EOF") {
		return document + "\nEOF\n"
	}
	return line
}

// Section returns the text between a heading, such as "## Install", and the next heading. A missing heading is an
// error.
func Section(text, heading string) (string, error) {
	_, section, ok := strings.Cut(text, "\n"+heading+"\n")
	if !ok {
		return "", fmt.Errorf("no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	return section, nil
}
