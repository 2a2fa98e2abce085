// Package fakes holds fake driver libraries and compiles them.
//
// They are written in C because the seam they sit at is the driver's C ABI: the
// production code loads them with dlopen through the unchanged bindings, so what
// is tested is the code that ships, down to struct layouts, sizing calls and
// return codes. A fake behind a Go interface would prove none of that, and a
// shared library written in Go would bring a second Go runtime into the process.
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
//go:embed nvml.c mig.c gpm.c accounting.c state.h
var sources embed.FS

// binding is the module whose header the fake NVML is compiled against.
const binding = "github.com/NVIDIA/go-nvml"

// Compile builds the fake libnvidia-ml.so.1 in a directory and returns the path
// of the library. It needs gcc, as cgo does, and the go command to find the
// header of the binding; it must be called from within this module. The header
// comment of nvml.c describes how the library is told what to answer. The
// library lacks the functions in without, as an older driver's would.
func Compile(dir string, without ...string) (path string, err error) {
	if path, err = filepath.Abs(filepath.Join(dir, "libnvidia-ml.so.1")); err != nil {
		return "", fmt.Errorf("compile fake NVML: %w", err)
	}
	if err := compile(path, without); err != nil {
		return "", fmt.Errorf("compile fake NVML: %w", err)
	}
	return path, nil
}

func compile(path string, without []string) error {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return fmt.Errorf("gcc is needed, as for cgo; install gcc and the C library's headers: %w", err)
	}
	module, err := output(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", binding))
	if err != nil {
		return fmt.Errorf("find nvml.h: %w", err)
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
	args := []string{
		"-shared", "-fPIC", "-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations",
		"-DNVML_NO_UNVERSIONED_FUNC_DEFS", "-I" + filepath.Join(module, "pkg", "nvml"),
		"-Wl,-soname," + filepath.Base(path), "-o", path, filepath.Join(src, "nvml.c"),
	}
	for _, symbol := range without {
		args = append(args, "-D"+symbol+"=nvmlWithout_"+symbol) // under a name nobody looks for
	}
	_, err = output(exec.Command(gcc, args...))
	return err
}

// output runs a command; its error says what the command wrote to stderr.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
