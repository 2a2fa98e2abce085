//go:build e2e

// Workload is the only program in the containers of the tests. It replaces the pause program and the programs that use
// GPUs. By default, it waits for a signal. With the argument with-child, it also starts a child process. With the
// argument crash, it ends immediately. With the argument eat, it allocates memory until it is killed.
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
		// The child process ends with its parent, which is the container's first process.
		if err := exec.Command("/proc/self/exe").Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fmt.Println("devices:", os.Getenv("NVIDIA_VISIBLE_DEVICES"))
	<-end
}

// eat touches every page, because untouched memory does not count.
func eat() {
	for n := 1 << 20; ; n *= 2 {
		_ = slices.Repeat([]byte{1}, n)
	}
}
