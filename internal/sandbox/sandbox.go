// Package sandbox permanently restricts the program by Landlock, no_new_privs and seccomp. docs/security.md lists the
// denied operations.
//
// Landlock restricts a single thread, but the Go runtime starts several threads before main. Therefore one restricted
// thread executes the program again in the same process. All threads of the executed program are then in one Landlock
// domain.
//
// The library libpsx restricts each thread separately, so each thread would be in its own domain. Before Linux 6.15,
// threads in different domains cannot signal each other. The kernel's own solution (LANDLOCK_RESTRICT_SELF_TSYNC) needs
// Linux 7.0.
//
// Reading files is not restricted. The location of the driver's files depends on the distribution and the container
// toolkit, and may change while the program runs.
package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rules describes the operations that remain allowed.
type Rules struct {
	// State is the directory in which the program writes files, or empty. Enter creates a missing directory, because a
	// Landlock rule needs an existing directory.
	State string
	// Features is another directory in which the program writes files, or empty. Enter does not create it.
	Features string
	// Devices is a directory with device files that the program may write and control, including files that appear
	// later.
	Devices string
	// Ports lists the TCP ports to which the program may connect.
	Ports []uint16
}

// marker is the environment variable that passes the restrictions to the executed program.
const marker = "GPULEDGER_SANDBOX"

// restrictions contains the restrictions that are in force. abi is the kernel's Landlock ABI, or 0 without Landlock.
// filtered is set if both system call filters are installed.
type restrictions struct {
	abi      int
	filtered bool
}

var current restrictions

// environment returns the environment variables that pass these restrictions to the executed program.
func (r restrictions) environment() []string {
	if r.abi == 0 {
		return os.Environ()
	}
	return append(os.Environ(), marker+"="+fmt.Sprint(r.abi, r.filtered))
}

// openTimeout is the timeout for opening the directories in the rules, because their file system may hang.
const openTimeout = 2 * time.Second

// Enter restricts the program and returns the kernel's Landlock ABI. A newer ABI restricts more operations: truncation
// since ABI 3, TCP connections since ABI 4, ioctl on devices since ABI 5, and signals since ABI 6.
//
// Enter executes the program again, so main must call it first. If Enter returns an error, the program is not
// restricted.
func Enter(r Rules) (abi int, err error) {
	if inside := os.Getenv(marker); inside != "" {
		_ = os.Unsetenv(marker)
		_, err = fmt.Sscan(inside, &current.abi, &current.filtered)
		return current.abi, err
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
		runtime.LockOSThread() // never unlocked, so a restricted thread ends with this goroutine
		failed <- execute(ruleset, abi)
	}()
	return 0, <-failed
}

// execute restricts this thread and executes the program again. It returns only on errors.
func execute(ruleset, abi int) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := restrict(ruleset); err != nil {
		return err
	}
	return replace(restrictions{abi: abi}.environment())
}

// replace executes the program again. It returns only on errors.
func replace(environment []string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	// The thread that calls execve becomes the main thread. It keeps its own parent-death signal.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, deathSignal, 0, 0, 0); err != nil {
		return fmt.Errorf("set the parent-death signal: %w", err)
	}
	return fmt.Errorf("execute %s: %w", program, unix.Exec(program, os.Args, environment))
}

// Restart executes the program again in the same process, with additional environment variables. The restrictions
// remain in force. Restart returns only on errors. [FilterRules] must allow the program to execute files. Landlock
// allows it to execute only its own file, so Restart cannot start a new version in another file.
func Restart(environment ...string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return replace(append(current.environment(), environment...))
}

// deathSignal is the signal that the program receives when its parent ends, or 0. It is a property of the main thread,
// so it must be read on this thread. Go initialises packages on the main thread, but may run main on another thread.
var deathSignal = parentDeathSignal()

// parentDeathSignal ignores errors, because the call fails only for an invalid address.
func parentDeathSignal() uintptr {
	var signal int32
	_ = unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0)
	return uintptr(signal)
}

// openInTime returns an error if opening the ruleset takes longer than openTimeout.
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
		return -1, fmt.Errorf("open the directories of the Landlock rules: timeout after %v", openTimeout)
	}
}
