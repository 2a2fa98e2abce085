// Package fakes contains fake driver libraries and compiles them.
//
// They are written in C because they replace the driver at its C ABI: the production code loads
// them with dlopen through the unchanged bindings. The tests therefore cover the released code,
// including struct layouts, sizing calls and return codes. A fake behind a Go interface would
// prove none of that, and a shared library written in Go would add a second Go runtime to the
// process.
package fakes

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sources are the C files. A build constraint at the top of each keeps it out of
// the Go build.
//
//go:embed nvml.c mig.c gpm.c accounting.c dcgm.c fields.h state.h
var sources embed.FS

type library struct {
	name    string // its soname, and the name of its file
	source  string
	binding string // the module whose headers it is compiled against
	headers string // their folder in the module
}

var (
	nvml = library{"libnvidia-ml.so.1", "nvml.c", "github.com/NVIDIA/go-nvml", "pkg/nvml"}
	dcgm = library{"libdcgm.so.4", "dcgm.c", "github.com/NVIDIA/go-dcgm", "pkg/dcgm"}
)

// Compile builds the fake libnvidia-ml.so.1 in a directory and returns the path of the library.
// It requires gcc, as cgo does, and the go command to find the header of the binding. It must be
// called from within this module. The header comment of nvml.c describes how the library is
// configured. The library lacks the functions in without, like an older driver.
func Compile(dir string, without ...string) (path string, err error) {
	return nvml.compile(dir, without)
}

// CompileDCGM is [Compile] for the fake libdcgm.so.4, which dcgm.c describes.
func CompileDCGM(dir string, without ...string) (path string, err error) {
	return dcgm.compile(dir, without)
}

func (l library) compile(dir string, without []string) (path string, err error) {
	if path, err = filepath.Abs(filepath.Join(dir, l.name)); err == nil {
		err = l.build(path, without)
	}
	if err != nil {
		return "", fmt.Errorf("compile fake %s: %w", l.name, err)
	}
	return path, nil
}

func (l library) build(path string, without []string) error {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return fmt.Errorf("gcc is required, as for cgo; install gcc and the C library's headers: %w", err)
	}
	module, err := output(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", l.binding))
	if err != nil {
		return fmt.Errorf("find the headers of %s: %w", l.binding, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	src, err := os.MkdirTemp("", "fakes")
	if err != nil {
		return err
	}
	defer os.RemoveAll(src)
	if err := os.CopyFS(src, sources); err != nil {
		return err
	}
	optimise := "-O1"
	if len(without) > 0 { // a library for a single test
		optimise = "-O0"
	}
	args := []string{
		"-shared", "-fPIC", optimise, "-g", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations",
		"-DNVML_NO_UNVERSIONED_FUNC_DEFS", "-I" + filepath.Join(module, l.headers),
		"-Wl,-soname," + l.name, "-o", path, filepath.Join(src, l.source),
	}
	for _, symbol := range without {
		args = append(args, "-D"+symbol+"=without_"+symbol) // under an unused name
	}
	_, err = output(exec.Command(gcc, args...))
	return err
}

// output runs a command. Its error contains the command's stderr.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
