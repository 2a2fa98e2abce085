package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// BinEnv is the environment variable with the output folder of make build.
const BinEnv = "GPULEDGER_E2E_BIN"

// Built returns the path of a program that make build has built. It reads the attributes of the file, so that go test
// runs the test again when the file changes.
func Built(name string) (string, error) {
	dir := os.Getenv(BinEnv)
	if dir == "" {
		return "", fmt.Errorf("%s is not set: run the tests with make e2e, or a part of it", BinEnv)
	}
	files := []string{name}
	if name == "simnode" { // simnode starts the exporter with the fake driver
		files = append(files, "gpuledger", "lib/libnvidia-ml.so.1")
	}
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			return "", fmt.Errorf("find a file of make build: %w", err)
		}
	}
	return filepath.Join(dir, name), nil
}

// Build builds programs in cmd with the flags of a release. The exporter and the simulated node bind the driver's
// functions lazily (see the Makefile). The other programs need no C compiler.
func Build(ctx context.Context, dir string, names ...string) error {
	for _, name := range names {
		if err := Depend(ctx, "github.com/gpuledger/gpuledger/cmd/"+name); err != nil {
			return err
		}
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -extldflags=-Wl,-z,lazy",
			"-o", filepath.Join(dir, name), "github.com/gpuledger/gpuledger/cmd/"+name)
		build.Env = os.Environ()
		if name != "gpuledger" && name != "simnode" {
			build.Env = append(build.Env, "CGO_ENABLED=0")
		}
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", build.Args, err, out)
		}
	}
	return nil
}

// Depend reads the attributes of all source files of this module that are compiled into packages. Thus go test runs the
// test again when a file changes, although it does not see the files that a started "go build" reads. The arguments are
// packages and flags of go list, such as -test. When a Go file is added or removed, tools/realtime repeats all tests.
func Depend(ctx context.Context, args ...string) error {
	files, err := sources(ctx, args...)
	for _, file := range files {
		_, _ = os.Stat(file) // the build reports a missing file
	}
	return err
}

func sources(ctx context.Context, args ...string) ([]string, error) {
	var format strings.Builder
	for _, files := range []string{"GoFiles", "CgoFiles", "CFiles", "HFiles", "SFiles", "EmbedFiles"} {
		fmt.Fprintf(&format, "{{range .%s}}{{$.Dir}}/{{.}}\n{{end}}", files)
	}
	list := exec.CommandContext(ctx, "go", append([]string{
		"list", "-buildvcs=false", "-deps",
		"-f", "{{if .Module}}{{if .Module.Main}}" + format.String() + "{{end}}{{end}}",
	}, args...)...)
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", list.Args, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}
