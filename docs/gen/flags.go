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

Flags of both programs, as printed by ` + "`--help`" + `. Set a flag with ` + "`--name=value`" + `. An invalid flag ends the program at once with one line that names it.
`

// flagsPage returns docs/flags.md.
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
		{"gpuledger", "The exporter. `gpuledger cleanup` takes the same flags; it removes the content of `--state.path`, and the directory of `--kubelet.pods-api-socket` if it is empty.", exporter},
		{"gpuledger status", "Prints the state of the node from a running exporter.", status},
		{"gpuledger-reconciler", "`gpuledger-reconciler cleanup` takes the same flags.", cluster},
	} {
		fmt.Fprintf(out, "\n## %s\n\n%s\n\n| flag | default | |\n|---|---|---|\n", program.title, program.about)
		program.flags.VisitAll(func(f *flag.Flag) { fmt.Fprintln(out, row(f)) })
	}
	return out.Bytes(), nil
}

// row returns the row of a flag. Back quotes in the usage mark the kind of its value.
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
