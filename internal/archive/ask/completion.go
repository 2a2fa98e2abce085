package ask

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// completions are scripts by shell. %[1]s is the name of the program, %[2]s the name of a function, %[3]s the
// commands, and %[4]s the cases of the flags.
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

// Completion writes the completion of a program for a shell.
func Completion(w io.Writer, shell, program string) error {
	script, ok := completions[shell]
	if !ok {
		return fmt.Errorf("completion %s: must be bash, zsh or fish", shell)
	}
	var names []string
	var cases strings.Builder
	for _, c := range commands() {
		names = append(names, c.name)
		flags, _ := c.flags()
		var all []string
		flags.VisitAll(func(f *flag.Flag) {
			dashes, option := "--", "-l"
			if len(f.Name) == 1 {
				dashes, option = "-", "-s"
			}
			all = append(all, dashes+f.Name+"=")
			if shell == "fish" {
				fmt.Fprintf(&cases, "complete -c %s -n '__fish_seen_subcommand_from %s' %s %s -r\n", program, c.name, option, f.Name)
			}
		})
		slices.Sort(all)
		switch shell {
		case "bash":
			fmt.Fprintf(&cases, "\t\t%s) words=%q ;;\n", c.name, strings.Join(all, " "))
		case "zsh":
			fmt.Fprintf(&cases, "\t\t%s) words_=%q ;;\n", c.name, strings.Join(all, " "))
		}
	}
	names = append(names, "accept", "completion", "once", "prune", "run", "schema")
	function := "_" + strings.NewReplacer("-", "_", " ", "_").Replace(program)
	_, err := fmt.Fprintf(w, script, program, function, strings.Join(names, " "), cases.String())
	return err
}
