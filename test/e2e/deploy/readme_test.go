//go:build e2e

package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadme runs the commands in the README's table of installations: the command that builds the chart, and every
// variant for Kubernetes. Local paths replace the addresses of the chart and the manifest.
func TestReadme(t *testing.T) {
	release := regexp.MustCompile(`https://\S+/releases/download/v[0-9.]+/(\S+)`)
	before := settled(t)
	t.Cleanup(func() { remove(t, "namespace", "gpuledger") })
	for _, command := range readmeCommands(t) {
		t.Run(command, func(t *testing.T) {
			command := published.ReplaceAllString(command, absolute(t, chart))
			built, clone := strings.HasPrefix(command, "make chart "), ""
			if built { // the overlays are not rendered again, because other tests read them
				clone = "../../.."
				folder, err := os.MkdirTemp("", "chart")
				check(t, err)
				defer os.RemoveAll(folder)
				command = strings.Replace(command, "make chart ", "R=registry.example.com; make -o manifests chart CHART="+folder+" ", 1)
				command = strings.Replace(command, " bin/chart/", " "+folder+"/", 1)
			}
			command = release.ReplaceAllString(command, filepath.Join(filepath.Dir(absolute(t, chart)), "../manifests/$1"))
			shell(t, clone, command)
			if built {
				wantBuilt(t)
			}
			if added := len(everything(t)) - len(before); added < 15 {
				t.Errorf("%d more objects, want at least 15", added)
			}
			if manifest, ok := strings.CutPrefix(command, "kubectl apply --server-side "); ok {
				shell(t, "", "kubectl delete "+manifest)
			} else {
				shell(t, "", "kubectl --namespace gpuledger delete --ignore-not-found configmap gpuledger-sidecar", "helm uninstall gpuledger --namespace gpuledger")
			}
		})
	}
	remove(t, "namespace", "gpuledger")
	nothingLeft(t, before)
}

// wantBuilt checks that the installed images have the registry R and the tag in the command, and the names in
// docs/images.md.
func wantBuilt(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/images.md")
	check(t, err)
	const images = "{.spec.template.spec.containers[*].image}"
	for object, name := range map[string]string{"daemonset/gpuledger": "gpuledger", "deployment/gpuledger-reconciler": "gpuledger-reconciler"} {
		got := kubectl(t, "--namespace=gpuledger", "get", object, "--output=jsonpath="+images)
		if want := "registry.example.com/gpuledger/" + name + ":dev"; got != want {
			t.Errorf("the image of %s is %s, want %s", object, got, want)
		}
		if pushed := `docker push "$R/gpuledger/` + name + `:$T"`; !strings.Contains(string(page), pushed) {
			t.Errorf("docs/images.md lacks %s", pushed)
		}
	}
}

// readmeCommands returns the commands in the table. A row "the same with `--set key=a`, `b`" contains two variants of
// the first row's command for a release.
func readmeCommands(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../README.md")
	check(t, err)
	_, table, _ := strings.Cut(string(text), "\n| cluster or machine | today | with a release |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	quoted := regexp.MustCompile("`([^`]+)`")
	var commands []string
	variants := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		_, same, ok := strings.Cut(line, "the same with ")
		switch spans := quoted.FindAllStringSubmatch(cells[len(cells)-1], -1); {
		case ok:
			var key string
			for _, span := range quoted.FindAllStringSubmatch(same, -1) {
				if name, _, ok := strings.Cut(strings.TrimPrefix(span[1], "--set "), "="); ok {
					key = name
				} else {
					span[1] = "--set " + key + "=" + span[1]
				}
				commands = append(commands, commands[0]+" "+span[1])
				variants++
			}
		case len(spans) == 1 && (strings.HasPrefix(spans[0][1], "helm ") || strings.HasPrefix(spans[0][1], "kubectl ")):
			commands = append(commands, spans[0][1])
			if built := strings.Trim(cells[len(cells)-2], "`"); strings.HasPrefix(built, "make chart ") {
				commands = append(commands, built)
			}
		}
	}
	if len(commands) != variants+3 || variants < 10 {
		t.Fatalf("%d commands, %d of them variants; want at least 10 variants of the first, and two more: %q", len(commands), variants, commands)
	}
	return commands
}
