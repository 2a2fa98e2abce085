package fakes_test

import (
	"debug/elf"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
)

// The libraries are compiled with the binding's headers. If the ABI has changed, the compilation fails.
func TestCompile(t *testing.T) {
	path, err := fakes.Compile(t.TempDir() + "/new")
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if names, err := f.DynString(elf.DT_SONAME); err != nil || !slices.Equal(names, []string{"libnvidia-ml.so.1"}) {
		t.Errorf("soname is %v, %v", names, err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if elf.ST_BIND(s.Info) == elf.STB_GLOBAL && s.Section != elf.SHN_UNDEF && !strings.HasPrefix(s.Name, "nvml") {
			t.Errorf("exports %s, which could shadow a symbol of another library", s.Name)
		}
	}
}

// If the compiler is missing, the error must name it.
func TestNoCompiler(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Fatal("this machine has no gcc, which cgo needs:", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := fakes.Compile(t.TempDir()); err == nil || !strings.Contains(err.Error(), "gcc is required") {
		t.Errorf("error is %v", err)
	}
}
