package sandbox

import "golang.org/x/sys/unix"

// filter is a program of classic BPF that decides about system calls (seccomp(2)). At the end of
// each part of the program the call number is loaded.
type filter []unix.SockFilter

// The results of a filter.
const (
	accept = unix.SECCOMP_RET_ALLOW
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
)

// The offsets in struct seccomp_data. Both architectures are little-endian, and the kernel uses the
// low half of every argument that is compared here.
const (
	offNumber, offArch, offArguments = 0, 4, 16
	sizeArgument                     = 8
)

// x32 is the bit that marks the numbers of calls of amd64's x32 ABI.
const x32 = 0x40000000

// newFilter returns the beginning of a filter. It refuses calls of other architectures, because
// they have other numbers.
func newFilter() filter {
	return filter{
		statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offArch),
		compare(unix.BPF_JEQ, architecture, 1, 0),
		ret(refuse),
		statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offNumber),
		compare(unix.BPF_JGE, x32, 0, 1),
		ret(refuse),
	}
}

// allowed returns the filter with all other calls allowed.
func (f filter) allowed() []unix.SockFilter { return append(f, ret(accept)) }

// deny refuses calls.
func (f filter) deny(calls ...uint32) filter {
	for _, call := range calls {
		f = f.fail(call, unix.EPERM)
	}
	return f
}

// fail makes a call fail with an error.
func (f filter) fail(call uint32, errno unix.Errno) filter {
	return f.jump(call, ret(unix.SECCOMP_RET_ERRNO|uint32(errno)))
}

// only refuses a call unless its first argument has one of the values.
func (f filter) only(call uint32, values ...uint32) filter {
	return f.argument(call, 0, accept, refuse, values)
}

// never refuses a call if an argument has one of the values.
func (f filter) never(call, argument uint32, values ...uint32) filter {
	return f.argument(call, argument, refuse, accept, values)
}

func (f filter) argument(call, argument, equal, other uint32, values []uint32) filter {
	body := []unix.SockFilter{load(argument)}
	for _, v := range values {
		body = append(body, compare(unix.BPF_JEQ, v, 0, 1), ret(equal))
	}
	return f.jump(call, append(body, ret(other))...)
}

// jump executes instructions for one call. The instructions must end with a result. There can be at
// most 255, because a jump's distance is one byte.
func (f filter) jump(call uint32, body ...unix.SockFilter) filter {
	return append(append(f, compare(unix.BPF_JEQ, call, 0, uint8(len(body)))), body...)
}

// load loads an argument of the call.
func load(argument uint32) unix.SockFilter {
	return statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offArguments+sizeArgument*argument)
}

// set returns two instructions: a result if one of the bits is set.
func set(bits, result uint32) []unix.SockFilter {
	return []unix.SockFilter{compare(unix.BPF_JSET, bits, 0, 1), ret(result)}
}

func ret(result uint32) unix.SockFilter { return statement(unix.BPF_RET|unix.BPF_K, result) }

func statement(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func compare(operation uint16, k uint32, ifTrue, ifFalse uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | operation | unix.BPF_K, Jt: ifTrue, Jf: ifFalse, K: k}
}
