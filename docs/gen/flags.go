package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/archive"
	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
	"github.com/gpuledger/gpuledger/internal/doctor"
	"github.com/gpuledger/gpuledger/internal/reconciler"
)

const flagsHead = `# Flags

<!-- Written by go generate ./docs. Do not edit. -->

` + "`--help`" + ` prints these flags. Set a flag with ` + "`--name=value`" + `. If a flag is invalid, the program ends at once and prints one line that names the flag.
`

func flagsPage() ([]byte, error) {
	environment := func(name string) string { return "$" + name }
	exporter, _ := app.Flags(environment)
	status, _ := app.StatusFlags()
	explain, _ := app.ExplainFlags()
	release, _ := app.ReleaseFlags()
	units, _ := app.UnitsFlags(app.UnitsCommand)
	cluster, _ := reconciler.Flags(environment)
	filer, _ := archive.Flags()
	inBoth := func(row string) bool {
		return slices.Contains(rows(exporter), row) && slices.Contains(rows(cluster), row)
	}
	onlyIn := func(flags *flag.FlagSet) []string { return slices.DeleteFunc(rows(flags), inBoth) }
	shared := slices.DeleteFunc(rows(exporter), func(row string) bool { return !inBoth(row) })
	out := bytes.NewBufferString(flagsHead)
	for _, table := range []struct {
		title, about string
		rows         []string
	}{
		{"Exporter and reconciler", "`gpuledger` and `gpuledger-reconciler` share these flags.", shared},
		{"gpuledger", "These are the exporter's flags. `gpuledger cleanup` accepts the same flags. It removes the content of the directory `--state.path`. If the directory of `--kubelet.pods-api-socket` is empty, it also removes that directory.", onlyIn(exporter)},
		{"gpuledger status", "Prints the state of the node, as a running exporter reports it.", rows(status)},
		{"gpuledger explain", "Prints why an owner was charged energy on a GPU, as a running exporter reports it. [bill.md](bill.md) explains a charge step by step.", rows(explain)},
		{"gpuledger release", "Makes the running exporter close either NVIDIA's driver or one GPU for a while. Only root and the exporter's user can use this command, either on the same machine or in the exporter's container.", rows(release)},
		{
			"gpuledger units", "Lists the managers of units, or explains the owner of a process. The command also accepts `--units…`, `--path.procfs` and `--kubelet.pod-resources-socket`, which the section [gpuledger](#gpuledger) describes. `gpuledger doctor` also accepts these flags.",
			slices.DeleteFunc(rows(units), func(row string) bool { return slices.Contains(rows(exporter), row) }),
		},
		{"gpuledger-reconciler", "`gpuledger-reconciler cleanup` accepts the same flags.", onlyIn(cluster)},
		{"gpuledger-archive", "[archive.md](archive.md) describes this program. It also accepts `--log…` and `--version`, and its command `run` accepts `--web…`. The section [Exporter and reconciler](#exporter-and-reconciler) describes these flags.", onlyIn(filer)},
		{"Commands of gpuledger-archive", "[ask.md](ask.md) describes these commands. If the description of a flag does not name commands, all commands accept the flag.", questionRows(ask.Flags())},
		{"kubectl gpuledger doctor", "Prints how to install gpuledger on a cluster, and on which nodes an exporter is missing. [install.md](install.md) describes the installation. The command passes flags of kubectl on to kubectl.", rows(doctor.Flags())},
	} {
		fmt.Fprintf(out, "\n## %s\n\n%s\n\n| flag | default | |\n|---|---|---|\n", table.title, table.about)
		for _, r := range table.rows {
			fmt.Fprintln(out, r)
		}
	}
	sinkTable(out)
	return out.Bytes(), nil
}

func sinkTable(out *bytes.Buffer) {
	fmt.Fprint(out, "\n## URLs of sinks\n\n`gpuledger-archive --to` accepts these URLs, and may be repeated. A parameter of a URL has the same meaning as the flag with the same name, but applies only to this sink. `--books` can read all kinds of sinks except the last two in the table.\n\n"+
		"| URL | rows are | parameters | same as |\n|---|---|---|---|\n")
	for _, k := range sinks.Kinds() {
		fmt.Fprintf(out, "| `%s` | %s | %s | `--%s` |\n", k.Example, k.Help, strings.Join(k.Parameters(), ", "), k.Flag)
	}
}

func rows(flags *flag.FlagSet) []string {
	var all []string
	flags.VisitAll(func(f *flag.Flag) { all = append(all, row(f)) })
	return all
}

// If only some commands have a flag, its row lists these commands.
func questionRows(commands map[string]*flag.FlagSet) []string {
	of := make(map[string][]string) // the commands that have the flag, by row
	for _, command := range slices.Sorted(maps.Keys(commands)) {
		for _, r := range rows(commands[command]) {
			of[r] = append(of[r], "`"+command+"`")
		}
	}
	var all []string
	for _, r := range slices.Sorted(maps.Keys(of)) {
		if len(of[r]) < len(commands) {
			r = strings.TrimSuffix(r, " |") + " (" + strings.Join(of[r], ", ") + ") |"
		}
		all = append(all, r)
	}
	return all
}

// Back quotes in the flag's usage mark the name of its value.
func row(f *flag.Flag) string {
	kind, usage := flag.UnquoteUsage(f)
	name := "--" + f.Name
	if len(f.Name) == 1 {
		name = "-" + f.Name
	}
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
