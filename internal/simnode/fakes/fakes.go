// Package fakes contains fake driver libraries and compiles them.
//
// The libraries are written in C, because they replace the driver at its C ABI. The released code loads them with
// dlopen, like the real driver. Therefore the tests cover struct layouts, sizing calls and return codes. A fake behind
// a Go interface would not cover them. A shared library in Go would add a second Go runtime to the process.
package fakes

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sources contains the C source files of the libraries. A build constraint at the top of each file excludes it from the
// Go build.
//
//go:embed nvml.c mig.c gpm.c accounting.c dcgm.c cuda.c fields.h live.h state.h
var sources embed.FS

type library struct {
	name    string // soname of the library, which is also the name of its file
	source  string
	binding string // module with the headers for the source; empty if it needs none
	headers string // folder of the headers in the module
}

var (
	nvml = library{"libnvidia-ml.so.1", "nvml.c", "github.com/NVIDIA/go-nvml", "pkg/nvml"}
	dcgm = library{"libdcgm.so.4", "dcgm.c", "github.com/NVIDIA/go-dcgm", "pkg/dcgm"}
	cuda = library{name: "libcuda.so.1", source: "cuda.c"}
)

// Compile builds the fake libnvidia-ml.so.1 in a directory and returns its path. It requires gcc, which cgo needs too.
// It also requires the go command to find the header of the binding. The working directory must be in this module. The
// header comment of nvml.c describes how to configure the library.
func Compile(dir string) (path string, err error) {
	return nvml.compile(dir)
}

// CompileDCGM is [Compile] for the fake libdcgm.so.4, which dcgm.c describes.
func CompileDCGM(dir string) (path string, err error) {
	return dcgm.compile(dir)
}

// CompileCUDA is [Compile] for the fake libcuda.so.1, which cuda.c describes.
func CompileCUDA(dir string) (path string, err error) {
	return cuda.compile(dir)
}

// Without copies a compiled library into another directory and returns the path of the copy. The copy does not export
// the given functions, like the library of an older driver. Without overwrites their names. The loader looks up symbols
// by a hash of the name, so it finds neither the old names nor the new names.
func Without(library, dir string, functions ...string) (path string, err error) {
	content, err := os.ReadFile(library)
	if err != nil {
		return "", err
	}
	for _, f := range functions {
		content = bytes.ReplaceAll(content, []byte(f+"\x00"), []byte("_"+f[1:]+"\x00"))
	}
	path = filepath.Join(dir, filepath.Base(library))
	return path, os.WriteFile(path, content, 0o755)
}

// OfVersion copies a compiled driver library to a path. The copy accepts only the given version of the kernel module.
func OfVersion(library, path, version string) error {
	content, err := os.ReadFile(library)
	if err != nil {
		return err
	}
	const mark = "fake library of driver version:"
	content = bytes.Replace(content, []byte(mark+strings.Repeat("\x00", len(version)+1)), []byte(mark+version+"\x00"), 1)
	return os.WriteFile(path, content, 0o755)
}

func (l library) compile(dir string) (path string, err error) {
	if path, err = filepath.Abs(filepath.Join(dir, l.name)); err == nil {
		err = l.build(path)
	}
	if err != nil {
		return "", fmt.Errorf("compile fake %s: %w", l.name, err)
	}
	return path, nil
}

func (l library) build(path string) error {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return fmt.Errorf("gcc is required, as for cgo; install gcc and the C library's headers: %w", err)
	}
	includes, err := l.includes()
	if err != nil {
		return err
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
	// The library must not contain the path of the temporary folder. Otherwise equal sources would result in different
	// libraries.
	args := []string{
		"-shared", "-fPIC", "-O1", "-g", "-ffile-prefix-map=" + src + "=.", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations",
		"-DNVML_NO_UNVERSIONED_FUNC_DEFS",
		"-Wl,-soname," + l.name, "-Wl,-Bsymbolic-functions", "-o", path, filepath.Join(src, l.source),
	}
	_, err = output(exec.Command(gcc, append(args, includes...)...))
	return err
}

func (l library) includes() ([]string, error) {
	if l.binding == "" {
		return nil, nil
	}
	module, err := output(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", l.binding))
	if err != nil {
		return nil, fmt.Errorf("find the headers of %s: %w", l.binding, err)
	}
	return []string{"-I" + filepath.Join(module, l.headers)}, nil
}

// If the command fails, the error contains the command's standard error output.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
