package fakes

import (
	"fmt"
	"os"
)

// Main runs the tests of a package that loads the fake libraries, and returns the exit status. It
// compiles the libraries for which a path is requested, and removes them afterwards.
func Main(m interface{ Run() int }, driver, engine *string) int {
	dir, err := os.MkdirTemp("", "fakes")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if driver != nil {
		*driver, err = Compile(dir)
	}
	if engine != nil && err == nil {
		*engine, err = CompileDCGM(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
