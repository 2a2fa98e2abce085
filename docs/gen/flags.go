package main

import (
	"bytes"
	"flag"
	"fmt"
	"strings"

	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/reconciler"
)

const flagsHead = `# Flags

<!-- Written by go generate ./docs. Do not edit. -->

What the programs' own ` + "`--help`" + ` says. A flag is given as ` + "`--name=value`" + `. One that is wrong ends the program at once, with a line that names it.
`

// flagsPage is docs/flags.md, from the flags of both programs.
func flagsPage() ([]byte, error) {
	environment := func(name string) string { return "$" + name }
	exporter, _ := app.Flags(environment)
	status, _ := app.StatusFlags()
	cluster, _ := reconciler.Flags(environment)
	out := bytes.NewBufferString(flagsHead)
	for _, program := range []struct {
		title, about string
		flags        *flag.FlagSet
	}{
		{"gpuledger", "The exporter. `gpuledger cleanup` takes the same; it removes what `--state.path` holds, and the folder of `--kubelet.pods-api-socket` if that is empty.", exporter},
		{"gpuledger status", "Prints the state of the node, as a running exporter shows it.", status},
		{"gpuledger-reconciler", "`gpuledger-reconciler cleanup` takes the same.", cluster},
	} {
		fmt.Fprintf(out, "\n## %s\n\n%s\n\n| flag | default | |\n|---|---|---|\n", program.title, program.about)
		program.flags.VisitAll(func(f *flag.Flag) { fmt.Fprintln(out, row(f)) })
	}
	return out.Bytes(), nil
}

// row is one flag. The usage marks the kind of its value by back quotes.
func row(f *flag.Flag) string {
	kind, usage := flag.UnquoteUsage(f)
	name := "--" + f.Name
	if kind != "" {
		name += "=" + kind
	}
	initial := ""
	if f.DefValue != "" {
		initial = "`" + f.DefValue + "`"
	}
	cell := strings.NewReplacer("|", `\|`, "\n", " ").Replace
	return fmt.Sprintf("| `%s` | %s | %s |", cell(name), cell(initial), cell(usage))
}
