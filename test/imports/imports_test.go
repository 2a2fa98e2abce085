package imports

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gpuledger/gpuledger/"

// never lists packages of this module that other packages must not import. An entry also applies to all packages
// below it. New packages do not need an entry.
var never = []struct {
	importers, imports []string
	why                string
}{
	{[]string{"internal/gpu", "internal/labelvalue", "internal/state", "internal/proc"}, []string{""}, "is used by all packages and imports no other package"},
	{[]string{"internal/ledger"}, allBut("internal/gpu"), "is pure: it receives all data as arguments"},
	{[]string{"internal/metric"}, allBut("internal/labelvalue"), "has no metric of its own"},
	{[]string{"internal/record"}, allBut("internal/gpu"), "computes rows only, and has no page and no archive"},
	{[]string{"internal/source/amd"}, allBut("internal/gpu", "internal/lane", "internal/source"), "reads files only"},
	{[]string{"internal/owner"}, allBut("internal/gpu", "internal/proc"), "uses its resolvers through an interface"},
	{
		[]string{"internal/source", "internal/host", "podmapper"},
		[]string{"internal/ledger", "internal/sampler", "internal/state", "internal/status", "internal/app", "collector"},
		"is independent of the packages that use its readings",
	},
	{
		[]string{"internal/sampler"},
		[]string{"internal/source", "internal/owner", "podmapper", "internal/status", "internal/app", "collector"},
		"uses its sources through their interfaces and is independent of the output",
	},
	{
		[]string{"collector", "internal/status"},
		[]string{"internal/source", "internal/host", "podmapper", "internal/ledger", "internal/sampler", "internal/state", "internal/app"},
		"renders a snapshot and reads nothing",
	},
	{
		[]string{"internal/reconciler", "internal/nodelabel"},
		[]string{"internal/source", "internal/host", "internal/owner", "internal/proc", "podmapper", "internal/ledger", "internal/sampler", "internal/state", "internal/app", "collector"},
		"has no access to a GPU",
	},
	{
		[]string{"internal/inventory", "internal/cli", "internal/serve", "internal/lane", "internal/stage"},
		[]string{"internal/app", "internal/reconciler", "internal/sampler"},
		"is shared by other packages and must not depend on them",
	},
	{
		[]string{"internal/app", "internal/reconciler", "internal/sampler", "internal/ledger", "internal/source", "podmapper", "collector", "cmd/gpuledger", "cmd/gpuledger-reconciler", "internal/deploy"},
		[]string{"internal/simnode", "internal/gpu/gputest", "test", "docs", "dashboards"},
		"is part of a release, which must not contain simulations",
	},
	{[]string{"internal/archive"}, allBut("internal/archive", "internal/cli", "internal/event", "internal/health", "internal/labelvalue", "internal/metric", "internal/serve", "internal/style"), "reads stores and receives events only"},
	{[]string{"internal/doctor"}, allBut("internal/doctor", "internal/labelvalue"), "reads a cluster through kubectl only"},
	{[]string{"internal", "podmapper", "collector", "test"}, []string{"cmd"}, "is not a program"},
	{[]string{"internal/simnode"}, allBut("internal/gpu", "internal/simnode"), "simulates the driver, the kubelet and the kernel"},
}

func allBut(but ...string) []string { return append([]string{"!"}, but...) }

func forbids(imports []string, own string) bool {
	if imports[0] == "!" {
		return !below(own, imports[1:])
	}
	return below(own, imports)
}

func below(pkg string, of []string) bool {
	return slices.ContainsFunc(of, func(p string) bool { return p == "" || pkg == p || strings.HasPrefix(pkg, p+"/") })
}

// importers maps each restricted external package to the package of this module that may import it. The packages below
// that package may also import it.
var importers = map[string]string{
	"github.com/NVIDIA/go-nvml": "internal/source/nvml",
	"github.com/NVIDIA/go-dcgm": "internal/source/dcgm",
	"k8s.io/kubelet":            "podmapper",
	"k8s.io/client-go":          "internal/reconciler",
	"k8s.io/component-helpers":  "internal/reconciler",
	"k8s.io/api":                "internal/reconciler",
	"k8s.io/apimachinery":       "internal/reconciler",

	"github.com/go-sql-driver/mysql":   "internal/archive/database",
	"github.com/jackc/pgx":             "internal/archive/database",
	"modernc.org/sqlite":               "internal/archive/database",
	"github.com/parquet-go/parquet-go": "internal/archive/files",
}

// pure lists the packages that import only the standard library and packages of this module.
var pure = []string{"internal/archive/fold", "internal/archive/table", "internal/doctor/advice", "internal/event", "internal/gpu", "internal/ledger", "internal/inventory", "internal/nodelabel", "internal/reconciler/machine", "internal/reconciler/validator", "internal/source/amd"}

// goList lists all folders of the checkout, because go test does not see the files that a started "go list" reads. Thus
// go test runs the test again when a file changes.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	err := filepath.WalkDir("../..", func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && slices.Contains([]string{".git", "bin", "node_modules"}, entry.Name()) {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", append([]string{"list", "-buildvcs=false"}, args...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestImports(t *testing.T) {
	imported := 0
	for _, line := range goList(t, "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...") {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		for _, i := range fields[1:] {
			own, ours := strings.CutPrefix(i, module)
			for _, n := range never {
				if ours && below(pkg, n.importers) && forbids(n.imports, own) && !strings.HasSuffix(pkg, "test") {
					t.Errorf("%s imports %s, but %s", pkg, own, n.why)
				}
			}
			if ours {
				imported++
			}
			if slices.Contains(pure, pkg) && !ours && strings.Contains(strings.Split(i, "/")[0], ".") {
				t.Errorf("%s imports %s, but must import only the standard library", pkg, i)
			}
			for outside, importer := range importers {
				// The simulated kubelet serves the same protocol. The manifests and the pod patch are made from the API
				// server's types.
				other := pkg == "internal/simnode" || (pkg == "internal/deploy" || pkg == "internal/sidecar") && outside != "k8s.io/client-go"
				if strings.HasPrefix(i, outside) && !strings.HasPrefix(pkg+"/", importer+"/") && !other {
					t.Errorf("%s imports %s, which only %s may import", pkg, i, importer)
				}
			}
		}
	}
	if imported < 100 {
		t.Errorf("go list printed only %d imports of this module, want at least 100", imported)
	}
}

// TestNothingSimulated checks that the exporter links no simulation, no API server client and no test library. The only
// exceptions are the test helpers that go-dcgm imports outside its tests.
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

// TestPureGo checks that the programs with network access link no package that uses cgo or accesses GPUs. The archive
// must link no API server client.
func TestPureGo(t *testing.T) {
	banned := map[string][]string{
		"gpuledger-reconciler": {module + "internal/source", module + "internal/simnode", module + "podmapper", "github.com/NVIDIA", "github.com/google/go-cmp"},
		"gpuledger-archive":    {module + "internal/source", module + "internal/simnode", module + "internal/archive/fold/foldtest", module + "podmapper", "github.com/NVIDIA", "github.com/google/go-cmp", "k8s.io"},
	}
	for program, banned := range banned {
		for _, line := range goList(t, "-deps", "-f", "{{.ImportPath}} {{if not .Standard}}{{len .CgoFiles}}{{else}}0{{end}}", "./cmd/"+program) {
			pkg, cgo, _ := strings.Cut(line, " ")
			if cgo != "0" {
				t.Errorf("%s links %s, which uses cgo", program, pkg)
			}
			for _, b := range banned {
				if pkg == b || strings.HasPrefix(pkg, b+"/") {
					t.Errorf("%s links %s", program, pkg)
				}
			}
		}
	}
}

// TestDocumented checks that docs/design.md has a row for each package.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range goList(t, "./...") {
		pkg = strings.TrimPrefix(pkg, module)
		if !strings.Contains(string(text), "`"+pkg+"`") && !strings.Contains(string(text), "`.../"+filepath.Base(pkg)+"`") {
			t.Errorf("design.md has no row for %s", pkg)
		}
	}
}
