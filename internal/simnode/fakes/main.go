package fakes

import (
	"fmt"
	"os"
)

// Main runs the tests of a package that loads the fake libraries, and returns the exit status. It compiles each library
// whose path is not nil, and removes the libraries at the end.
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
