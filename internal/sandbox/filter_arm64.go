package sandbox

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_AARCH64

// deniedHere is empty, because arm64 has no denied calls that other architectures do not have.
var deniedHere []uint32
