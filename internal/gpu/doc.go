// Package gpu defines the types of gpuledger: devices, readings, processes, owners, accounts and the published
// snapshot. It imports only the standard library, and does no I/O.
//
// Three conventions apply everywhere. A nil pointer means "could not be read"; it never means zero. Energy is counted
// in whole [Millijoules], so that sums are exact. Identity strings are stored as the driver returned them. Only pages
// normalise them, with [Identity].
package gpu
