//go:build e2e

// Package kubelet_test runs gpuledger beside a real kubelet with real containers. It checks on a real node that the
// assumptions of the simulated node are true.
//
// The node is isolated inside the machine. The test binary starts itself again in new network, mount and process
// namespaces, with empty folders at the paths that the kubelet requires. It runs containerd, the kubelet and gpuledger
// there. When this process ends, for any reason, the kernel removes its processes, mounts and network. Only the pods'
// cgroups remain, and the outer process removes them.
//
// A named network namespace (ip netns) would remain, and would hide the cgroups.
//
// The kubelet runs without an API server. It reads pods from a folder of manifests, admits the pods, calls the device
// plugin, and responds on its sockets as in a cluster.
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
	// programsEnv names the folder of kubelet and podsapi, which the script run builds.
	programsEnv = "GPULEDGER_E2E_KUBELET"
	// insideEnv names the work folder of the process inside the namespaces.
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

// outside returns the exit status.
func outside() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir := filepath.Join(os.Getenv(programsEnv), "work")
	err := cleanUp(dir) // an earlier run that was killed may have left files
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

// cleanUp removes the cgroups and folders that remain after the end of the namespaces. The kubelet's folder was only a
// mount point and is empty.
func cleanUp(dir string) error {
	err := os.Remove(kubeletRoot)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, removeCgroups(), os.RemoveAll(dir))
}

func build(dir string) error {
	const module = "github.com/gpuledger/gpuledger/"
	exporter := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-extldflags=-Wl,-z,lazy", "-o", filepath.Join(dir, "gpuledger"), module+"cmd/gpuledger")
	workload := exec.Command("go", "build", "-tags=e2e", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(dir, "workload"), module+"test/e2e/kubelet/workload")
	toolkit := exec.Command("go", "build", "-tags=e2e", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(dir, "toolkit"), module+"test/e2e/kubelet/toolkit")
	workload.Env = append(os.Environ(), "CGO_ENABLED=0") // the image of this program has no C library
	for _, cmd := range []*exec.Cmd{exporter, workload, toolkit} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
		}
	}
	_, err := fakes.Compile(dir)
	return err
}

// runInside returns after every process in the namespaces has ended.
func runInside(ctx context.Context, dir string) error {
	runtime.LockOSThread() // Pdeathsig kills the child when the thread that started the child ends
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
