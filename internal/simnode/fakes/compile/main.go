// Command compile builds the fake driver libraries in a directory.
package main

import (
	"fmt"
	"os"

	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: compile DIR")
		os.Exit(2)
	}
	for _, compile := range []func(string) (string, error){fakes.Compile, fakes.CompileDCGM} {
		path, err := compile(os.Args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(path)
	}
}
