package app_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gpuledger/gpuledger/"

// allowed lists, for each package of this module, which other packages of it its
// production code may import. What is not listed here may not exist.
var allowed = map[string][]string{
	"internal/gpu":     {},
	"internal/stage":   {"internal/gpu"},
	"internal/ledger":  {"internal/gpu"},
	"internal/state":   {},
	"internal/host":    {"internal/gpu"},
	"internal/lane":    {},
	"internal/nvml":    {"internal/gpu", "internal/lane", "internal/stage"},
	"internal/dcgm":    {"internal/gpu", "internal/lane"},
	"internal/source":  {"internal/gpu", "internal/stage"},
	"podmapper":        {"internal/gpu", "internal/lane", "internal/stage"},
	"collector":        {"internal/gpu", "internal/labelvalue"},
	"internal/sampler": {"internal/gpu", "internal/lane", "internal/stage", "internal/host", "internal/ledger", "internal/state"},
	"internal/status":  {"internal/gpu", "internal/stage", "internal/labelvalue"},
	"internal/app": {
		"internal/gpu", "internal/lane", "internal/stage", "internal/host", "internal/ledger", "internal/inventory", "internal/status",
		"internal/nvml", "internal/dcgm", "internal/source", "internal/sampler", "internal/state", "collector", "podmapper", "internal/flags", "internal/serve", "internal/logs", "internal/sandbox",
	},
	"internal/sandbox": {},
	"cmd/gpuledger":    {"internal/app", "internal/footprint", "internal/logs", "internal/sandbox"},

	// What both programs share.
	"internal/inventory":  {"internal/gpu"},
	"internal/labelvalue": {},
	"internal/flags":      {},
	"internal/serve":      {"collector"},
	"internal/footprint":  {},
	"internal/logs":       {},

	// The reconciler.
	"internal/nodelabel":           {"internal/gpu", "internal/inventory"},
	"internal/machine":             {},
	"internal/reconciler/exporter": {"internal/inventory", "internal/flags"},
	"internal/reconciler/verdict":  {"internal/inventory", "internal/nodelabel"},
	"internal/reconciler/watch":    {"collector"},
	"internal/reconciler/nodes": {
		"internal/gpu", "internal/inventory", "internal/nodelabel", "internal/machine", "internal/reconciler/exporter", "internal/reconciler/verdict",
		"internal/reconciler/watch", "internal/flags", "collector",
	},
	"internal/reconciler/workloads": {"internal/reconciler/watch", "internal/flags", "internal/labelvalue", "collector"},
	"internal/reconciler/expected":  {"collector"},
	"internal/reconciler": {
		"internal/reconciler/nodes", "internal/reconciler/workloads", "internal/reconciler/expected", "internal/reconciler/watch",
		"internal/flags", "internal/serve", "internal/logs", "collector",
	},
	"cmd/gpuledger-reconciler": {"internal/reconciler", "internal/footprint", "internal/logs"},

	// The manifests.
	"internal/deploy":     {},
	"internal/deploy/gen": {"internal/deploy"},

	// The simulated node and the tests' parts, which no production binary links.
	"internal/simnode":               {"internal/gpu"},
	"internal/simnode/fakes":         {},
	"internal/simnode/fakes/compile": {"internal/simnode/fakes"},
	"cmd/simnode":                    {"internal/simnode", "internal/host"},
	"internal/gpu/gputest":           {"internal/gpu"},
	"test/exposition":                {"internal/gpu"},
	"test/promdoc":                   {},
	"test/alerts":                    {},
	"test/promql":                    {"collector", "internal/reconciler"},
	"test/golden":                    {},
	"test/deadfs":                    {},
	"test/program":                   {},
	"test/prometheus":                {"test/program"},
	"test/fleet":                     {"internal/simnode", "test/program", "test/prometheus"},
	"test/demo":                      {"internal/simnode", "test/fleet", "test/program"},
	"test/speed":                     {"test/exposition", "test/program", "test/promdoc", "test/prometheus"},
	"test/pictures":                  {"internal/simnode", "test/fleet"},
	"dashboards":                     {},
	"docs":                           {},
	"docs/gen":                       {"collector", "internal/app", "internal/reconciler", "internal/serve"},
	"test/markdown":                  {},
	"test/accuracy":                  {"internal/app", "internal/gpu", "internal/simnode", "test/markdown"},
	"test/accuracy/report":           {"internal/simnode/fakes", "test/accuracy", "test/markdown"},
	"test/cost":                      {"collector", "internal/footprint", "internal/gpu", "internal/host", "internal/ledger", "internal/sampler", "internal/serve", "internal/stage", "test/markdown"},

	"internal/simnode/fakes/nodestate": {"internal/gpu", "internal/gpu/gputest"},
}

// only lists the packages outside the standard library that just one package of
// ours, and those below it, may import.
var only = map[string]string{
	"github.com/NVIDIA/go-nvml": "internal/nvml",
	"github.com/NVIDIA/go-dcgm": "internal/dcgm",
	"k8s.io/kubelet":            "podmapper",
	"k8s.io/client-go":          "internal/reconciler",
	"k8s.io/component-helpers":  "internal/reconciler",
	"k8s.io/api":                "internal/reconciler",
	"k8s.io/apimachinery":       "internal/reconciler",
}

// pure lists the packages that import the standard library only.
var pure = []string{"internal/gpu", "internal/ledger", "internal/inventory", "internal/nodelabel", "internal/machine", "internal/reconciler/verdict"}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-buildvcs=false"}, args...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestImports holds the direction of imports, for every package there is.
func TestImports(t *testing.T) {
	for _, line := range goList(t, "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...") {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		may, listed := allowed[pkg]
		if !listed {
			t.Errorf("package %s has no place in the table of this test", pkg)
		}
		for _, i := range may {
			if !slices.Contains(fields[1:], module+i) {
				t.Errorf("%s may import %s, and does not: shorten the table", pkg, i)
			}
		}
		for _, i := range fields[1:] {
			own, ours := strings.CutPrefix(i, module)
			if ours && !slices.Contains(may, own) {
				t.Errorf("%s imports %s", pkg, own)
			}
			if slices.Contains(pure, pkg) && !ours && strings.Contains(strings.Split(i, "/")[0], ".") {
				t.Errorf("%s imports %s, but should need the standard library only", pkg, i)
			}
			for outside, importer := range only {
				// The simulated kubelet speaks the same protocol from the other side, and
				// the manifests are written from the API server's types.
				other := pkg == "internal/simnode" || pkg == "internal/deploy" && outside != "k8s.io/client-go"
				if strings.HasPrefix(i, outside) && !strings.HasPrefix(pkg+"/", importer+"/") && !other {
					t.Errorf("%s imports %s, which is %s's", pkg, i, importer)
				}
			}
		}
	}
}

// TestNothingSimulated: the exporter links no simulated part, no client of the API
// server, and none of the tests' libraries, but for those that go-dcgm brings along: its
// helpers for tests are not in files of tests.
func TestNothingSimulated(t *testing.T) {
	for _, line := range goList(t, "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./cmd/gpuledger") {
		fields := strings.Fields(line)
		dep := fields[0]
		for _, banned := range []string{module + "internal/simnode", module + "internal/gpu/gputest", "k8s.io/client-go", "github.com/google/go-cmp", "github.com/NVIDIA/go-nvml/pkg/nvml/mock"} {
			if dep == banned || strings.HasPrefix(dep, banned+"/") {
				t.Errorf("gpuledger links %s", dep)
			}
		}
		theirs := strings.HasPrefix(dep, "github.com/NVIDIA/go-dcgm/") || strings.HasPrefix(dep, "github.com/stretchr/testify/")
		if slices.Contains(fields[1:], "testing") && !theirs {
			t.Errorf("%s is linked into gpuledger and imports testing", dep)
		}
	}
}

// TestReconcilerIsPureGo: the program with credentials needs no C compiler and no C
// library, and has no way to a GPU.
func TestReconcilerIsPureGo(t *testing.T) {
	for _, line := range goList(t, "-deps", "-f", "{{.ImportPath}} {{if not .Standard}}{{len .CgoFiles}}{{else}}0{{end}}", "./cmd/gpuledger-reconciler") {
		pkg, cgo, _ := strings.Cut(line, " ")
		if cgo != "0" {
			t.Errorf("gpuledger-reconciler links %s, which is cgo", pkg)
		}
		for _, banned := range []string{module + "internal/nvml", module + "internal/dcgm", module + "internal/simnode", module + "podmapper", "github.com/NVIDIA", "github.com/google/go-cmp"} {
			if pkg == banned || strings.HasPrefix(pkg, banned+"/") {
				t.Errorf("gpuledger-reconciler links %s", pkg)
			}
		}
	}
}
