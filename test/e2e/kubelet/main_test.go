//go:build e2e

// Package kubelet_test runs gpuledger beside a real kubelet with real containers:
// the assumptions of the simulated node are checked on a real one.
//
// The node is isolated inside the machine. The test's binary starts itself again
// in new network, mount and process namespaces, with empty folders at the paths
// that the kubelet requires, and runs containerd, the kubelet and gpuledger in
// there. When that process ends, for any reason, the kernel removes all of it:
// processes, mounts and the network. Only the pods' cgroups remain, and are
// removed from outside. A named network namespace (ip netns) would leave all of
// that to be cleaned up, and hides the cgroups.
//
// The kubelet runs alone, without an API server. Pods come from a folder of
// manifests; it admits them, calls the device plugin, and responds on its
// sockets as in a cluster.
package kubelet_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
)

const (
	// programsEnv names the folder with the programs built by the script run:
	// kubelet and podsapi.
	programsEnv = "GPULEDGER_E2E_KUBELET"
	// insideEnv is set in the process inside the namespaces: its work folder.
	insideEnv = "GPULEDGER_E2E_DIR"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if dir := os.Getenv(insideEnv); dir != "" {
		if err := moveIn(dir); err != nil {
			fmt.Println("e2e-kubelet:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	if err := obstacle(); err != nil {
		fmt.Println("e2e-kubelet: skipped:", err)
		return
	}
	os.Exit(outside())
}

// outside builds what the tests need, runs them inside the namespaces, and cleans
// up. It returns the exit status.
func outside() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir := filepath.Join(os.Getenv(programsEnv), "work")
	err := cleanUp(dir) // after a run that was killed
	if err == nil {
		err = errors.Join(os.MkdirAll(dir, 0o755), os.MkdirAll(kubeletRoot, 0o750))
	}
	if err == nil {
		err = build(dir)
	}
	if err == nil {
		err = runInside(ctx, dir)
	}
	if err := errors.Join(err, cleanUp(dir)); err != nil {
		fmt.Println("e2e-kubelet:", err)
		return 1
	}
	return 0
}

// cleanUp removes what the end of the namespaces does not. The kubelet's folder was
// only mounted on, and is empty.
func cleanUp(dir string) error {
	err := os.Remove(kubeletRoot)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, removeCgroups(), os.RemoveAll(dir))
}

// build compiles the exporter as it is shipped, the fake driver, and the program
// that runs in the containers.
func build(dir string) error {
	const module = "github.com/gpuledger/gpuledger/"
	exporter := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-extldflags=-Wl,-z,lazy", "-o", filepath.Join(dir, "gpuledger"), module+"cmd/gpuledger")
	workload := exec.Command("go", "build", "-tags=e2e", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(dir, "workload"), module+"test/e2e/kubelet/workload")
	workload.Env = append(os.Environ(), "CGO_ENABLED=0") // its image holds no C library
	for _, cmd := range []*exec.Cmd{exporter, workload} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
		}
	}
	_, err := fakes.Compile(dir)
	return err
}

// runInside runs this program in namespaces of its own, and does not return before
// every process in them is gone.
func runInside(ctx context.Context, dir string) error {
	runtime.LockOSThread() // the child is killed when the thread that started it ends
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID,
		Pdeathsig:  unix.SIGKILL,
	}
	return cmd.Run()
}
