package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FilterRules contains exceptions to the system call filter.
type FilterRules struct {
	// VSOCK allows connections to a hypervisor.
	VSOCK bool
	// Execute allows executing files. Set it only if Landlock restricts the program to its own file and its dynamic
	// loader. All restrictions remain in force after the program has executed a file.
	Execute bool
}

// Filter installs a seccomp filter for all threads. The filter cannot be removed. A denied system call returns EPERM,
// like a call without the necessary capability.
//
// The filter contains a list of denied calls. A list of allowed calls would depend on the versions of the driver's
// library, of libdcgm and of the C library, and could not be tested on all GPUs. If this list lacked a call, the
// exporter could no longer read the GPUs of a node.
//
// Most denied calls act on other processes, on the kernel or on the node. The calls of io_uring are denied because they
// bypass the filter. The program needs none of the denied calls to read GPUs.
func Filter(r FilterRules) error {
	if current.filtered {
		return nil
	}
	return install(program(r, os.Getpid()))
}

// FilterListening installs an additional filter that denies bind and listen. It must be called after the program has
// opened its sockets.
func FilterListening() error {
	if current.filtered {
		return nil
	}
	err := install(newFilter().deny(unix.SYS_BIND, unix.SYS_LISTEN).allowed())
	current.filtered = err == nil
	return err
}

// namespaces contains the flags of clone that create a namespace.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// fioSetOwn is FIOSETOWN from asm-generic/sockios.h. The package x/sys does not define it.
const fioSetOwn = 0x8901

// program returns the filter that Filter installs.
func program(r FilterRules, pid int) []unix.SockFilter {
	families := []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}
	if r.VSOCK {
		families = append(families, unix.AF_VSOCK)
	}
	f := newFilter()
	if !r.Execute {
		f = f.deny(unix.SYS_EXECVE)
	}
	f = f.deny(deniedCalls...).
		deny(deniedHere...).
		// If clone3 returns ENOSYS, the C library uses clone instead.
		fail(unix.SYS_CLONE3, unix.ENOSYS).
		// Threads need the call clone. The filter denies child processes, which the program does not need.
		jump(unix.SYS_CLONE, slices.Concat([]unix.SockFilter{load(0)}, set(namespaces, refuse), set(unix.CLONE_THREAD, accept), []unix.SockFilter{ret(refuse)})...).
		// These calls are allowed only for the program itself. The Go runtime sends signals to its own threads to
		// preempt them, and reads its own resource limits.
		only(unix.SYS_KILL, uint32(pid)).
		only(unix.SYS_TGKILL, uint32(pid)).
		only(unix.SYS_PRLIMIT64, 0, uint32(pid)).
		only(unix.SYS_SOCKET, families...).
		// With the argument 0, these calls change the scheduling of the calling thread. With another argument, they
		// could change other processes of this user.
		only(unix.SYS_SCHED_SETSCHEDULER, 0).
		only(unix.SYS_SCHED_SETPARAM, 0).
		only(unix.SYS_SCHED_SETATTR, 0).
		only(unix.SYS_SCHED_SETAFFINITY, 0).
		// These calls set the owner of a file. The owner is a process to which the kernel sends signals about the file.
		never(unix.SYS_FCNTL, 1, unix.F_SETOWN, unix.F_SETOWN_EX).
		never(unix.SYS_IOCTL, 1, fioSetOwn, unix.SIOCSPGRP)
	return f.allowed()
}

// deniedCalls lists the calls that are denied on every architecture.
var deniedCalls = []uint32{
	// calls that act on other processes
	unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_KCMP, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD,
	unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO,
	unix.SYS_PERF_EVENT_OPEN, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	// calls that execute other programs
	unix.SYS_EXECVEAT,
	// calls for namespaces and mounts
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT,
	unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	// calls that act on the kernel and the node
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_REBOOT, unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	// calls of io_uring, because a filter cannot check the operations that a program submits through io_uring
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
}

func install(program []unix.SockFilter) error {
	runtime.LockOSThread() // no_new_privs is a property of the thread that calls seccomp
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	switch {
	case errno != 0:
		return fmt.Errorf("install the system call filter: %w", errno)
	case thread != 0:
		return fmt.Errorf("install the system call filter: thread %d has a different filter", thread)
	}
	return nil
}
