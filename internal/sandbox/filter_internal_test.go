package sandbox

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestProgram runs the filter in an interpreter. Thus it can check calls that a test cannot make: calls of other
// architectures, and calls that affect other processes.
func TestProgram(t *testing.T) {
	const (
		i386 = 0x40000003 // AUDIT_ARCH_I386 of linux/audit.h
		pid  = 4711
		high = 1 << 32
	)
	refused, accepted := uint32(0x00050001), uint32(0x7fff0000) // return values of a filter: EPERM, and allowed (linux/seccomp.h)
	tests := []struct {
		name      string
		rules     FilterRules
		arch      uint32
		number    uint32
		arguments [2]uint64
		want      uint32
	}{
		{"i386", FilterRules{}, i386, 20, [2]uint64{}, refused},
		{"x32", FilterRules{}, architecture, unix.SYS_GETPID | 0x40000000, [2]uint64{}, refused},
		{"no number", FilterRules{}, architecture, 0xffffffff, [2]uint64{}, refused},
		{"a call of a newer kernel", FilterRules{}, architecture, 9999, [2]uint64{}, accepted},
		{"read", FilterRules{}, architecture, unix.SYS_READ, [2]uint64{}, accepted},
		{"control of the driver", FilterRules{}, architecture, unix.SYS_IOCTL, [2]uint64{3, 0xc020462a}, accepted},
		{"bind before listening", FilterRules{}, architecture, unix.SYS_BIND, [2]uint64{}, accepted},
		{"thread", FilterRules{}, architecture, unix.SYS_CLONE, [2]uint64{0x3d0f00}, accepted}, // the flags of pthread_create
		{"child", FilterRules{}, architecture, unix.SYS_CLONE, [2]uint64{0x11}, refused},
		{"thread in another namespace", FilterRules{}, architecture, unix.SYS_CLONE, [2]uint64{0x3d0f00 | 0x20000}, refused},
		{"own signal", FilterRules{}, architecture, unix.SYS_TGKILL, [2]uint64{pid, 4712}, accepted},
		{"own signal with high bits", FilterRules{}, architecture, unix.SYS_TGKILL, [2]uint64{high | pid, 4712}, accepted},
		{"signal to all", FilterRules{}, architecture, unix.SYS_KILL, [2]uint64{0xffffffff, 9}, refused},
		{"signal to its group", FilterRules{}, architecture, unix.SYS_KILL, [2]uint64{0, 9}, refused},
		{"packet socket", FilterRules{}, architecture, unix.SYS_SOCKET, [2]uint64{17, 3}, refused},
		{"packet socket with high bits", FilterRules{}, architecture, unix.SYS_SOCKET, [2]uint64{high | 17, 3}, refused},
		{"netlink socket", FilterRules{}, architecture, unix.SYS_SOCKET, [2]uint64{16, 3}, refused},
		{"AF_ALG", FilterRules{}, architecture, unix.SYS_SOCKET, [2]uint64{38, 5}, refused},
		{"vsock", FilterRules{}, architecture, unix.SYS_SOCKET, [2]uint64{40, 1}, refused},
		{"vsock of an engine", FilterRules{VSOCK: true}, architecture, unix.SYS_SOCKET, [2]uint64{40, 1}, accepted},
		{"IPv6", FilterRules{VSOCK: true}, architecture, unix.SYS_SOCKET, [2]uint64{10, 1}, accepted},
		{"limits of another process", FilterRules{}, architecture, unix.SYS_PRLIMIT64, [2]uint64{1, 7}, refused},
		{"non-blocking file", FilterRules{}, architecture, unix.SYS_FCNTL, [2]uint64{3, 4}, accepted},
		{"owner of a file", FilterRules{}, architecture, unix.SYS_FCNTL, [2]uint64{3, high | 8}, refused},
		{"execute a file", FilterRules{}, architecture, unix.SYS_EXECVE, [2]uint64{}, refused},
		{"execute a file that Landlock allows", FilterRules{Execute: true}, architecture, unix.SYS_EXECVE, [2]uint64{}, accepted},
		{"execute an open file", FilterRules{Execute: true}, architecture, unix.SYS_EXECVEAT, [2]uint64{}, refused},
		{"load a module", FilterRules{}, architecture, unix.SYS_FINIT_MODULE, [2]uint64{}, refused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var words [16]uint32 // struct seccomp_data
			words[0], words[1] = tt.number, tt.arch
			for i, a := range tt.arguments {
				words[4+2*i], words[5+2*i] = uint32(a), uint32(a>>32)
			}
			if got := interpret(t, program(tt.rules, pid), words); got != tt.want {
				t.Errorf("result %#x, want %#x", got, tt.want)
			}
		})
	}
}

// interpret executes a BPF program (Documentation/networking/filter.rst of the kernel).
func interpret(t *testing.T, program []unix.SockFilter, words [16]uint32) uint32 {
	t.Helper()
	var a uint32
	for i := 0; i < len(program); i++ {
		in := program[i]
		isTrue := false
		switch in.Code {
		case 0x20: // load a word
			a = words[in.K/4]
			continue
		case 0x06: // return
			return in.K
		case 0x15:
			isTrue = a == in.K
		case 0x35:
			isTrue = a >= in.K
		case 0x45:
			isTrue = a&in.K != 0
		default:
			t.Fatalf("instruction %d: unknown code %#x", i, in.Code)
		}
		if isTrue {
			i += int(in.Jt)
		} else {
			i += int(in.Jf)
		}
	}
	t.Fatal("the program has no end")
	return 0
}
