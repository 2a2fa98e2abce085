package sandbox

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// writeFile contains the rights to write to an existing file, including device files.
const writeFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE

func landlockABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, fmt.Errorf("this kernel has no Landlock, or a system call filter blocks it: %w", errno)
	}
	return int(abi), nil
}

// denied returns the operations that are denied unless a rule allows them. A kernel rejects operations that its ABI
// does not define, so the result depends on the ABI.
func denied(abi int) unix.LandlockRulesetAttr {
	d := unix.LandlockRulesetAttr{
		Access_fs: unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
			unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
			unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
			unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
			unix.LANDLOCK_ACCESS_FS_MAKE_SYM,
	}
	if abi >= 2 {
		d.Access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		d.Access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 4 {
		d.Access_net = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= 5 {
		d.Access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= 6 {
		d.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	return d
}

func open(r Rules, abi int) (int, error) {
	d := denied(abi)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&d)), unsafe.Sizeof(d), 0)
	if errno != 0 {
		return -1, fmt.Errorf("create a Landlock ruleset: %w", errno)
	}
	ruleset := int(fd)
	if err := addRules(ruleset, r, d); err != nil {
		_ = unix.Close(ruleset)
		return -1, err
	}
	return ruleset, nil
}

func addRules(ruleset int, r Rules, d unix.LandlockRulesetAttr) error {
	_ = os.MkdirAll(r.State, 0o755) // if this fails, the stage named state reports the reason
	const inState = writeFile | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE
	for _, directory := range []string{r.State, r.Features} {
		if err := allow(ruleset, directory, inState&d.Access_fs); err != nil {
			return err
		}
	}
	if err := allow(ruleset, r.Devices, (writeFile|unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)&d.Access_fs); err != nil {
		return err
	}
	executable, err := images()
	if err != nil {
		return err
	}
	for _, image := range executable {
		if err := allow(ruleset, image, unix.LANDLOCK_ACCESS_FS_EXECUTE); err != nil {
			return err
		}
	}
	if d.Access_net == 0 {
		return nil
	}
	for _, port := range r.Ports {
		if err := allowPort(ruleset, port); err != nil {
			return err
		}
	}
	return nil
}

// allow adds a rule for a file, or for a directory and everything below it. If the path is missing or unreachable,
// allow adds no rule, so the operations stay denied.
func allow(ruleset int, path string, rights uint64) error {
	flags := unix.O_PATH | unix.O_CLOEXEC
	if rights&unix.LANDLOCK_ACCESS_FS_MAKE_REG != 0 { // a rule with this right must be for a directory
		flags |= unix.O_DIRECTORY
	}
	fd, err := unix.Open(path, flags, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EACCES):
		return nil
	case err != nil:
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	return addRule(ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, unsafe.Pointer(&beneath), path)
}

// netPort is LANDLOCK_RULE_NET_PORT, and portRule is struct landlock_net_port_attr. The package x/sys defines neither.
const netPort = 2

type portRule struct {
	access uint64
	port   uint64
}

func allowPort(ruleset int, port uint16) error {
	rule := portRule{access: unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, port: uint64(port)}
	return addRule(ruleset, netPort, unsafe.Pointer(&rule), fmt.Sprintf("TCP port %d", port))
}

func addRule(ruleset, kind int, rule unsafe.Pointer, what string) error {
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), uintptr(kind), uintptr(rule), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("add a Landlock rule for %s: %w", what, errno)
	}
	return nil
}

// restrict restricts this thread, and all threads and programs that this thread starts.
func restrict(ruleset int) error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return fmt.Errorf("apply the Landlock ruleset: %w", errno)
	}
	return nil
}

// images returns the files that the kernel opens to execute the program: the program file and, for a dynamically linked
// program, the dynamic loader.
func images() ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program: %w", err)
	}
	file, err := elf.Open(program)
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	defer file.Close()
	for _, header := range file.Progs {
		if header.Type == elf.PT_INTERP {
			loader, err := io.ReadAll(header.Open())
			return []string{program, string(bytes.TrimRight(loader, "\x00"))}, err
		}
	}
	return []string{program}, nil
}
