//go:build e2e

// Workload is the only program in the containers of the tests. It replaces the pause program and
// the programs that use GPUs: it waits for the signal to end, alone, or with a child process if its
// argument is with-child. With the argument crash it ends at once, and with eat it takes memory
// until it is killed.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	switch {
	case slices.Contains(os.Args, "crash"):
		os.Exit(1)
	case slices.Contains(os.Args, "eat"):
		eat()
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	if slices.Contains(os.Args, "with-child") {
		// It ends with its parent, the container's first process.
		if err := exec.Command("/proc/self/exe").Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fmt.Println("devices:", os.Getenv("NVIDIA_VISIBLE_DEVICES"))
	<-end
}

// eat takes more and more memory and touches every page of it, without end.
func eat() {
	for n := 1 << 20; ; n *= 2 {
		_ = slices.Repeat([]byte{1}, n)
	}
}
