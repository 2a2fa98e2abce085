// Package sandbox restricts the program for the rest of its life, by Landlock and
// no_new_privs. docs/security.md lists what it can no longer do.
//
// Landlock restricts a thread, and the Go runtime has several before main begins. So one
// thread is restricted and executes the program again, in the same process: every thread
// of the new image is in one Landlock domain. Restricting each thread by itself, as libpsx
// does, makes a domain of each, and before Linux 6.15 threads in different domains cannot
// signal each other. The kernel's own way (LANDLOCK_RESTRICT_SELF_TSYNC) needs Linux 7.0.
//
// Reading files is not restricted: where the driver's library and its files lie differs by
// distribution and container toolkit, and may change while the program runs.
package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rules are the exceptions: what the restricted program may still do.
type Rules struct {
	// State is the folder in which it writes files. It is made if it is missing, since a
	// rule holds for a folder that exists. Without it nothing can be written.
	State string
	// Devices is the folder of device files that it opens for writing and controls, those
	// that appear later included.
	Devices string
	// Ports are the TCP ports that it connects to.
	Ports []uint16
}

// marker is the environment variable that tells the new image the Landlock ABI by which it
// is restricted.
const marker = "GPULEDGER_SANDBOX"

// openTimeout is for the folders of the rules, which may be on a dead file system.
const openTimeout = 2 * time.Second

// Enter restricts the program and returns the kernel's Landlock ABI, which says how far:
// 3 restricts truncation, 4 TCP connections, 5 ioctl on devices, 6 signals. It executes the
// program again, so it belongs at the beginning of main. After an error the program is not
// restricted.
func Enter(r Rules) (abi int, err error) {
	if inside := os.Getenv(marker); inside != "" {
		_ = os.Unsetenv(marker)
		return strconv.Atoi(inside)
	}
	if abi, err = landlockABI(); err != nil {
		return 0, err
	}
	ruleset, err := openInTime(r, abi)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(ruleset) }()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: a restricted thread ends with this goroutine
		failed <- execute(ruleset, abi)
	}()
	return 0, <-failed
}

// execute restricts this thread and replaces the program by itself. It returns on errors
// only.
func execute(ruleset, abi int) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	// The thread that executes becomes the main thread and keeps its own signal.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, deathSignal, 0, 0, 0); err != nil {
		return fmt.Errorf("set the parent-death signal: %w", err)
	}
	if err := restrict(ruleset); err != nil {
		return err
	}
	environment := append(os.Environ(), marker+"="+strconv.Itoa(abi))
	return fmt.Errorf("execute %s: %w", program, unix.Exec(program, os.Args, environment))
}

// deathSignal is the signal that the program gets when its parent ends, 0 for none. It
// belongs to the main thread, on which Go initialises packages: main may run on another.
var deathSignal = parentDeathSignal()

// parentDeathSignal returns the signal that this thread gets when its parent ends. The call
// fails for an invalid address only.
func parentDeathSignal() uintptr {
	var signal int32
	_ = unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0)
	return uintptr(signal)
}

// openInTime opens the ruleset, or returns an error if that takes too long.
func openInTime(r Rules, abi int) (ruleset int, err error) {
	done := make(chan struct{})
	var opened int
	var failure error
	go func() {
		defer close(done)
		opened, failure = open(r, abi)
	}()
	select {
	case <-done:
		return opened, failure
	case <-time.After(openTimeout):
		return -1, fmt.Errorf("open the folders of the Landlock rules: timeout after %v", openTimeout)
	}
}
