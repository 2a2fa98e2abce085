package sandbox

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_AARCH64

// deniedHere contains denied calls that other architectures do not have; there are none.
var deniedHere []uint32
