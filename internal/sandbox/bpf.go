package sandbox

import "golang.org/x/sys/unix"

// filter is a classic BPF program that allows or denies system calls (seccomp(2)). Each part of the program must leave
// the call number in the accumulator.
type filter []unix.SockFilter

const (
	accept = unix.SECCOMP_RET_ALLOW
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
)

// These are offsets in struct seccomp_data. Both supported architectures are little-endian. The filter compares only
// the low half of an argument, because the kernel ignores the high half of these arguments.
const (
	offNumber, offArch, offArguments = 0, 4, 16
	sizeArgument                     = 8
)

// x32 is the bit that distinguishes the call numbers of the x32 ABI from other call numbers of amd64.
const x32 = 0x40000000

// newFilter returns a filter that denies the calls of other architectures, because their call numbers differ.
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

// allowed completes the filter. The complete filter allows all calls that no part of it denies.
func (f filter) allowed() []unix.SockFilter { return append(f, ret(accept)) }

func (f filter) deny(calls ...uint32) filter {
	for _, call := range calls {
		f = f.fail(call, unix.EPERM)
	}
	return f
}

func (f filter) fail(call uint32, errno unix.Errno) filter {
	return f.jump(call, ret(unix.SECCOMP_RET_ERRNO|uint32(errno)))
}

// only denies a call unless its first argument has one of the values.
func (f filter) only(call uint32, values ...uint32) filter {
	return f.argument(call, 0, accept, refuse, values)
}

// never denies a call if the given argument has one of the values.
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

// jump adds instructions that are executed only for one call and must end with a result. There can be at most 255
// instructions, because the distance of a jump is one byte.
func (f filter) jump(call uint32, body ...unix.SockFilter) filter {
	return append(append(f, compare(unix.BPF_JEQ, call, 0, uint8(len(body)))), body...)
}

func load(argument uint32) unix.SockFilter {
	return statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offArguments+sizeArgument*argument)
}

// set returns instructions that end the filter with result if any of the given bits is set in the accumulator.
func set(bits, result uint32) []unix.SockFilter {
	return []unix.SockFilter{compare(unix.BPF_JSET, bits, 0, 1), ret(result)}
}

func ret(result uint32) unix.SockFilter { return statement(unix.BPF_RET|unix.BPF_K, result) }

func statement(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func compare(operation uint16, k uint32, ifTrue, ifFalse uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | operation | unix.BPF_K, Jt: ifTrue, Jf: ifFalse, K: k}
}
