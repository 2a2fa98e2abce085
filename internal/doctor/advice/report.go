package advice

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// Options configures a report.
type Options struct {
	// Namespace is the namespace for gpuledger, which may not be installed yet.
	Namespace string
	// Release is the version in the commands, such as 0.1.0. Released is false if this version is
	// not released yet.
	Release  string
	Released bool
	// All makes the report list all Nodes in a group.
	All bool
}

// These are the exit statuses of the program.
const (
	Well       = 0 // every Node with GPUs has a ready exporter
	ToDo       = 1
	Unreadable = 2 // a document could not be read
)

// Width is the maximum number of characters in a line of the report. Only lines with long names are
// longer.
const Width = 100

// Write writes the report and returns the exit status.
func (c *Cluster) Write(w io.Writer, o Options) (int, error) {
	r := &report{Options: o}
	groups, choices := c.states(), c.Choices()
	c.facts(r, groups, choices)
	status := Well
	if len(groups) == 0 {
		status = ToDo
		r.line("")
		r.text("", "No Node has GPUs: no capacity, ResourceSlice or label of a Node shows a GPU. Install the device plugin or the DRA driver first, "+
			"or label the Nodes: kubectl label node NODE nvidia.com/gpu.present=true")
	}
	if !c.installed() {
		status = ToDo
		r.installations(groups, choices)
	}
	for _, text := range c.warnings() {
		status = ToDo
		r.line("")
		r.text("", text)
	}
	for _, g := range groups {
		if g.level == todo {
			status = ToDo
		}
		if c.installed() {
			r.group(c, g)
		}
	}
	if len(c.unread) > 0 {
		status = Unreadable
		r.line("")
		r.line("These objects could not be read, so the report may be wrong:")
		for _, u := range c.unread {
			r.text("  ", reason("", u))
		}
	}
	r.line("")
	r.line("docs/install.md: https://github.com/gpuledger/gpuledger/blob/main/docs/install.md")
	_, err := io.WriteString(w, r.out.String())
	return status, err
}

type report struct {
	Options
	out strings.Builder
}

func (r *report) line(text string) { r.out.WriteString(strings.TrimRight(text, " ") + "\n") }

// Text from other programs is escaped.
func (r *report) text(indent, text string) { r.wrap(indent, indent, text) }

func (r *report) fact(name, text string) {
	const column = 13
	r.wrap(fmt.Sprintf("%-*s", column, name), strings.Repeat(" ", column), text)
}

// wrap writes lines of at most Width characters. The argument first is the indent of the first line, and indent is the
// indent of the other lines.
func (r *report) wrap(first, indent, text string) {
	line, indented := first, true
	for word := range strings.FieldsSeq(labelvalue.Printable(strings.ReplaceAll(text, "\n", " "))) {
		if !indented && len([]rune(line+" "+word)) > Width {
			r.line(line)
			line, indented = indent, true
		}
		if !indented {
			line += " "
		}
		line, indented = line+word, false
	}
	r.line(line)
}

// safe matches values that a shell does not change and that kubectl does not read as flags.
var safe = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/=:-]*$`)

// command writes a command in lines; each line except the last ends with a backslash. Each %s in
// the format is replaced by a value, and "%s…" by all remaining values. The command is omitted if a
// shell would interpret one of the values.
func (r *report) command(format string, values ...string) {
	if slices.ContainsFunc(values, func(v string) bool { return !safe.MatchString(v) }) {
		return
	}
	var words []string
	for word := range strings.FieldsSeq(format) {
		switch {
		case word == "%s…":
			words = append(words, values...)
		case strings.Contains(word, "%s") && len(values) > 0:
			words = append(words, strings.Replace(word, "%s", values[0], 1))
			values = values[1:]
		default:
			words = append(words, word)
		}
	}
	line := "  $"
	for i := 0; i < len(words); i++ {
		word := words[i]
		if valued[word] && i+1 < len(words) { // a flag and its value are on one line
			i++
			word += " " + words[i]
		}
		if len([]rune(line+" "+word)) > Width-2 {
			r.line(line + ` \`)
			line = "     "
		}
		line += " " + word
	}
	r.line(line)
}

var valued = map[string]bool{"--version": true, "--namespace": true, "--set": true, "--type": true, "--patch": true, "-k": true}

func (c *Cluster) facts(r *report, groups []*group, choices []Choice) {
	total, ready := 0, 0
	for _, g := range groups {
		if g.level != other {
			total += len(g.nodes)
		}
		if g.level == fine {
			ready += len(g.nodes)
		}
	}
	cluster := "Kubernetes " + c.version + ", " + count(len(c.nodes), "Node")
	if d := c.distribution(); d != "" {
		cluster += ", " + d
	}
	r.fact("Cluster", cluster)
	policies := map[string]string{
		"": "MutatingAdmissionPolicy is not served", "v1": "MutatingAdmissionPolicy is served",
		"v1beta1": "MutatingAdmissionPolicy is served as v1beta1",
	}
	r.fact("Policy API", policies[c.policyAPI])
	for _, choice := range choices {
		if choice.plugin != nil {
			d := choice.plugin.set
			r.fact("GPUs by", choice.plugin.name+", DaemonSet "+d.Metadata.full())
		} else if drivers := c.driversOf(choice.vendor); drivers != "" {
			r.fact("GPUs by", "the DRA driver "+drivers)
		} else {
			r.fact("GPUs by", "no known device plugin or DRA driver")
		}
		r.fact("Row", choice.describe())
	}
	r.fact("gpuledger", c.form())
	if len(groups) > 0 {
		r.fact("Exporters", fmt.Sprintf("ready on %d of %s with GPUs", ready, count(total, "Node")))
	}
}

func (c *Cluster) driversOf(v vendor) string {
	var names []string
	for _, drivers := range c.drivers {
		for _, d := range drivers {
			if draDrivers[d] == v && !slices.Contains(names, d) {
				names = append(names, d)
			}
		}
	}
	return strings.Join(names, ", ")
}

func (o *Choice) describe() string {
	row := "no row of docs/install.md fits"
	if o.Row != "" {
		row = `"` + o.Row + `" of docs/install.md`
	}
	if o.Overlay == "" {
		return row + ": " + o.impossible
	}
	text := row + ": overlay " + o.Overlay
	for i, name := range o.Components {
		text += map[bool]string{true: " with the component ", false: " and "}[i == 0] + name
	}
	if o.impossible != "" {
		text += ". " + o.impossible
	}
	for _, row := range o.Also {
		text += `; also "` + row + `"`
	}
	return text
}

func (c *Cluster) form() string {
	var forms []string
	for _, h := range c.hosts {
		switch {
		case h.own:
			forms = append(forms, "the exporter's own DaemonSet "+h.set.Metadata.full())
		case h.set.Spec.Template.Spec.has(containerName):
			forms = append(forms, "a container in the DaemonSet "+h.set.Metadata.full())
		}
	}
	if c.injector != nil {
		forms = append(forms, c.injector.form+" for the pods in "+strings.Join(c.injector.namespaces(), ", "))
	}
	if len(forms) == 0 {
		return "not installed"
	}
	if c.reconciler == nil {
		forms = append(forms, "no reconciler")
	}
	return strings.Join(forms, "; ")
}

func (r *report) installations(groups []*group, choices []Choice) {
	if len(choices) == 0 {
		return
	}
	r.line("")
	switch {
	case len(choices) > 1:
		r.text("", "Install both overlays as one overlay (section \"Two forms in one cluster\" in docs/platforms.md). If you apply two overlays separately, the second overlay replaces objects of the first overlay.")
	case choices[0].impossible != "":
		r.text("", "gpuledger cannot be installed: "+choices[0].impossible+".")
		return
	default:
		canary := "NODE"
		if len(groups) > 0 {
			canary = groups[0].nodes[0]
		}
		r.install(&choices[0], canary)
	}
	if !r.Released {
		r.text("", "Version "+r.Release+" is not released yet: build your own images and manifests (section \"Before there is a release\" in docs/images.md).")
	}
}

func (r *report) install(o *Choice, canary string) {
	if o.sidecar {
		r.text("", "To install the exporter in the device plugin's pods, run this command. Select one or two Nodes first (section \"Canary\" in docs/install.md):")
		r.helm(append(o.Values(), "sidecar.nodes="+canary))
	} else {
		r.text("", "To install the exporter as its own DaemonSet, run this command:")
		r.helm(o.Values())
	}
	if o.named() && len(o.Components) == 0 {
		r.line("or")
		r.apply(o.Overlay)
	}
	if o.sidecar {
		r.text("", "To install the exporter without a change to the device plugin's pods, as its own DaemonSet:")
		r.helm(o.apart().Values())
	}
	if slices.Contains(o.Also, rowWebhook) {
		r.text("", "To install the exporter in the device plugin's pods by a webhook (section \"Without the policy API\" in docs/platforms.md):")
		r.helm(append(o.beside().Values(), "sidecar.nodes="+canary))
	}
	if slices.Contains(o.Also, rowDCGM) {
		r.text("", "To install the exporter in DCGM Exporter's pods (section \"In the pods of another program\" in docs/platforms.md):")
		r.helm(append(slices.Clone(values["operator-dcgm-exporter"]), "sidecar.nodes="+canary))
	}
	if slices.Contains(o.Also, rowPatch) {
		r.text("", "To install the exporter in the device plugin's pods by a patch, see section \"Without an admission policy\" in docs/platforms.md.")
	}
}

func (r *report) apply(overlay string) {
	r.command(`kubectl apply --server-side -k "github.com/gpuledger/gpuledger//manifests/overlays/`+overlay+`?ref=v%s"`, r.Release)
}

func (r *report) helm(values []string) {
	r.command("helm install gpuledger "+chart+" --version %s --namespace %s --create-namespace"+strings.Repeat(" --set %s", len(values)),
		append([]string{r.Release, r.Namespace}, values...)...)
}

const chart = "oci://ghcr.io/gpuledger/charts/gpuledger"

// maxNodes is the maximum number of Nodes that the report lists in a group and names in a command.
const maxNodes = 10

func (r *report) group(c *Cluster, g *group) {
	shown := g.nodes
	more := ""
	if len(shown) > maxNodes && !r.All {
		more = fmt.Sprintf(" and %d more (--all)", len(shown)-maxNodes)
		shown = shown[:maxNodes]
	}
	r.line("")
	r.text("", fmt.Sprintf("%s with %s: %s", count(len(g.nodes), "Node"), g.gpus, g.text))
	r.text("  ", strings.Join(shown, ", ")+more)
	switch g.fix.kind {
	case fixLabel:
		r.command("kubectl label node %s…", append(slices.Clone(shown), strings.Fields(g.fix.labels)...)...)
	case fixNodes:
		r.selectNodes(c.injector)
		r.restart(g.fix)
	case fixRestart:
		if len(g.pods) > maxNodes {
			r.restart(g.fix)
			return
		}
		r.command("kubectl --namespace %s delete pod %s…", append([]string{g.fix.namespace}, g.pods...)...)
	case fixNone:
	}
}

func (r *report) restart(f fix) {
	r.command("kubectl --namespace %s rollout restart daemonset/%s", f.namespace, f.set)
}

func (r *report) selectNodes(i *injector) {
	m := i.parameters.Metadata
	if release := m.Annotations["meta.helm.sh/release-name"]; release != "" {
		r.command("helm upgrade %s "+chart+" --version %s --namespace %s --reuse-values --set sidecar.nodes='*'",
			release, r.Release, m.Annotations["meta.helm.sh/release-namespace"])
		return
	}
	r.command(`kubectl --namespace %s patch configmap %s --type merge --patch '{"data":{"nodes":"*"}}'`, i.namespace, i.name)
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func (c *Cluster) warnings() (texts []string) {
	if c.reconciler == nil {
		return nil
	}
	named := c.exportersOfReconciler()
	for _, h := range c.hosts {
		has := slices.ContainsFunc(h.pods, func(p pod) bool { return p.Spec.has(containerName) })
		if full := h.set.Metadata.full(); has && len(named) > 0 && !slices.Contains(named, full) {
			texts = append(texts, "The reconciler reads the exporters of "+strings.Join(named, ", ")+", but not the exporters of "+full+": set EXPORTERS (section \"Another namespace or release name\" in docs/platforms.md).")
		}
	}
	return texts
}

func (c *Cluster) exportersOfReconciler() (names []string) {
	for _, container := range c.reconciler.Spec.Template.Spec.Containers {
		if container.Name != "reconciler" {
			continue
		}
		for _, e := range container.Env {
			if e.Name == "EXPORTERS" {
				names = append(names, strings.Split(e.Value, ",")...)
			}
		}
		for _, a := range container.Args {
			if value, ok := strings.CutPrefix(a, "--exporter.daemonsets="); ok && !strings.Contains(value, "$") {
				names = append(names, strings.Split(value, ",")...)
			}
		}
	}
	return names
}
