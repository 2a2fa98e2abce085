package ask

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// completions contains a completion script for each shell. In a script, %[1]s is the name of the program, %[2]s the
// name of a function, %[3]s the commands, and %[4]s the cases for the flags.
var completions = map[string]string{
	"bash": `%[2]s() {
	local words
	if [ "$COMP_CWORD" = 1 ]; then
		words="%[3]s"
		compopt +o nospace 2> /dev/null
	else
		case "${COMP_WORDS[1]}" in
%[4]s		esac
	fi
	COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -o nospace -F %[2]s %[1]s
`,
	"zsh": `#compdef %[1]s
%[2]s() {
	local words_
	if (( CURRENT == 2 )); then
		words_="%[3]s"
	else
		case "$words[2]" in
%[4]s		esac
	fi
	if [[ $PREFIX == -*=* ]]; then
		compset -P '*='
		_files
	elif (( CURRENT == 2 )); then
		compadd -- ${=words_}
	else
		compadd -S '' -- ${=words_}
	fi
}
if [[ $funcstack[1] == _%[1]s ]]; then # the file is in a folder of $fpath
	%[2]s "$@"
else
	(( $+functions[compdef] )) || { autoload -U compinit && compinit -i }
	compdef %[2]s %[1]s
fi
`,
	"fish": `complete -c %[1]s -f -n __fish_use_subcommand -a "%[3]s"
%[4]s`,
}

// Completion writes the completion script of a program for a shell.
func Completion(w io.Writer, shell, program string) error {
	script, ok := completions[shell]
	if !ok {
		return fmt.Errorf("completion %s: must be bash, zsh or fish", shell)
	}
	var cases strings.Builder
	for _, c := range commands() {
		flags, _ := c.flags()
		if shell == "fish" {
			flags.VisitAll(func(f *flag.Flag) {
				option := map[string]string{"-": "-s", "--": "-l"}[dashes(f.Name)]
				fmt.Fprintf(&cases, "complete -c %s -n '__fish_seen_subcommand_from %s' %s %s -r\n", program, c.name, option, f.Name)
			})
		}
		if variable := map[string]string{"bash": "words", "zsh": "words_"}[shell]; variable != "" {
			fmt.Fprintf(&cases, "\t\t%s) %s=%q ;;\n", c.name, variable, strings.Join(c.flagWords(), " "))
		}
	}
	function := "_" + strings.NewReplacer("-", "_", " ", "_").Replace(program)
	_, err := fmt.Fprintf(w, script, program, function, strings.Join(names(), " "), cases.String())
	return err
}

// These directives are defined by cobra's completion protocol.
const (
	completeFiles = 0
	noSpace       = 2
	noFiles       = 4
)

// Complete writes the completions of the last argument, and a directive. The words are the program's arguments. kubectl
// runs kubectl_complete-gpuledger, which uses Complete.
func Complete(w io.Writer, words []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	last, c := words[len(words)-1], find(words[0])
	var all []string
	directive := completeFiles
	switch {
	case len(words) == 1:
		all, directive = names(), noFiles
	case words[0] == completion:
		all, directive = slices.Sorted(maps.Keys(completions)), noFiles
	case c != nil && strings.HasPrefix(last, "-") && !strings.Contains(last, "="):
		all, directive = c.flagWords(), noSpace
	}
	for _, word := range all {
		if strings.HasPrefix(word, last) {
			fmt.Fprintln(w, word)
		}
	}
	fmt.Fprintf(w, ":%d\n", directive)
}

// flagWords returns the flags of a command, such as --from=, in alphabetical order. All flags have a value.
func (c *command) flagWords() (all []string) {
	flags, _ := c.flags()
	flags.VisitAll(func(f *flag.Flag) { all = append(all, dashes(f.Name)+f.Name+"=") })
	slices.Sort(all)
	return all
}

func dashes(flag string) string { return "--"[:min(len(flag), 2)] }
