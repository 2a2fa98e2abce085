package trace_test

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/test/markdown"
)

var build = flag.Bool("build", false, "build and test a copy of the repository with each patch")

// change contains the commands that a contributor runs after applying a patch, and the lines that files must then
// contain.
type change struct {
	commands []string
	shows    map[string]string // regular expression by file
}

// These commands write the golden files and the generated pages.
const (
	pages    = "go test ./collector -update"
	generate = "go generate ./docs"
)

var changes = map[string]change{
	"column": {
		commands: []string{
			"go test ./internal/archive/files -run=^TestFiles$ -update",
			"go test ./internal/archive/webhook -run=^TestRows$ -update",
			"go test -short ./internal/archive/table ./internal/archive/fold ./internal/archive/books ./internal/archive/files ./internal/archive/database",
			generate,
		},
		shows: map[string]string{
			"internal/archive/files/testdata/files.txt":  "dram_active_ms,encoder_ms\n",
			"internal/archive/webhook/testdata/rows.txt": `"encoder_ms":0`,
			"docs/tables.md": "(?m)^\\| `encoder_ms` \\| integer \\| sampled time of the video encoder of pods or the unit",
		},
	},
	"gauge": {
		commands: []string{
			"go test ./internal/gpu/... ./internal/simnode/fakes/...",
			"go test ./internal/source/nvml -run=^(TestContract|TestCallsAreKnown)$",
			"go test ./internal/app -run=^TestGolden$/^dgx-h100$ -update",
			pages, generate,
		},
		shows: map[string]string{
			"internal/app/testdata/dgx-h100.prom": `(?m)^gpuledger_gpu_video_clock_hertz\{UUID="GPU-[^"]+"\} 1\.545e\+09$`,
			"collector/testdata/full_node.prom":   `gpuledger_gpu_video_clock_hertz`,
			"docs/metrics.md":                     `gpuledger_gpu_video_clock_hertz`,
		},
	},
	"manager": {
		commands: []string{"go test ./internal/unit", "go test ./internal/app -run=^TestUnitsCommand$ -update", generate},
		shows: map[string]string{
			"docs/flags.md":    "any of [^;]* nomad, oar, pbs, [^;]*;",
			"docs/managers.md": "(?m)^\\| `oar` \\| job id \\| cgroup \\|$",
		},
	},
	"owner": {
		commands: []string{"go test ./internal/vm ./internal/gpu ./internal/ledger", "go vet ./internal/app ./internal/status ./internal/sampler", pages, generate},
		shows: map[string]string{
			"collector/testdata/slurm_node.prom": `(?m)^gpuledger_machine_energy_joules_total\{.*machine="web".*\} `,
			"docs/metrics.md":                    "gpuledger_machine_process_info",
		},
	},
}

// TestTrace applies each patch to a copy of the repository and runs its commands. Only the files in the patch and
// generated files may change.
func TestTrace(t *testing.T) {
	if !*build {
		t.Skip("builds most packages once for each patch: make trace runs it")
	}
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			copyTree(t, dir)
			hunks := readPatch(t, name)
			for file, text := range patch(t, dir, hunks) {
				write(t, filepath.Join(dir, file), []byte(text))
			}
			before := contents(t, dir)
			for _, command := range c.commands {
				run(t, dir, command)
			}
			after := contents(t, dir)
			for file, pattern := range c.shows {
				if !regexp.MustCompile(pattern).MatchString(after[file]) {
					t.Errorf("%s does not contain %s", file, pattern)
				}
			}
			for _, file := range slices.Sorted(maps.Keys(after)) {
				if after[file] != before[file] && !generated.MatchString(file) {
					t.Errorf("%s changed, but is neither generated nor in the patch", file)
				}
			}
			t.Logf("%s: %d files changed by hand; the tests pass", name, len(counted(hunks)))
		})
	}
}

// TestFirstChange runs the first commands of CONTRIBUTING.md in a copy of the repository. A test must fail because of
// the changed line, and must pass after -update.
func TestFirstChange(t *testing.T) {
	if !*build {
		t.Skip("builds a copy of the repository: make trace runs it")
	}
	dir := t.TempDir()
	copyTree(t, dir)
	section, err := markdown.Section(contents(t, dir)["CONTRIBUTING.md"], "## Change one line, and see it tested in four seconds")
	if err != nil {
		t.Fatal(err)
	}
	commands := markdown.Commands(section)
	if len(commands) != 3 {
		t.Fatalf("%d commands, want 3: %q", len(commands), commands)
	}
	shell := func(command string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := shell(commands[0]); err != nil {
		t.Fatalf("%s: %v\n%s", commands[0], err, out)
	}
	if out, err := shell(commands[1]); err == nil || !regexp.MustCompile(`(?m)^\s*\+.*\bdie\b`).MatchString(out) {
		t.Errorf("%s does not print the changed line: %v\n%s", commands[1], err, out)
	}
	if out, err := shell(commands[2]); err != nil {
		t.Errorf("%s: %v\n%s", commands[2], err, out)
	}
}

var generated = regexp.MustCompile(`/testdata/|^docs/(metrics|flags|tables|managers)\.md$`)

// The copy omits these folders, because no change affects them.
var skipped = regexp.MustCompile(`(^|/)(\.git|bin|node_modules)$`)

// The path that do receives is relative to the tree.
func walk(t *testing.T, root string, do func(path string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped.MatchString(name):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			do(name, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func copyTree(t *testing.T, dir string) {
	t.Helper()
	walk(t, "../..", func(name string, text []byte) { write(t, filepath.Join(dir, name), text) })
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	walk(t, dir, func(name string, text []byte) { all[name] = string(text) })
	return all
}

// The linker flags are the flags of make test, so that both use one build cache.
func run(t *testing.T, dir, command string) {
	t.Helper()
	args := strings.Fields(command)
	if args[1] == "test" {
		args = slices.Insert(args, 2, "-trimpath", "-ldflags=-w -extldflags=-Wl,-z,lazy")
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}
