package sandbox

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_AARCH64

// deniedHere are the denied calls that other architectures do not have: none.
var deniedHere []uint32
