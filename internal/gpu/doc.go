// Package gpu defines the types of gpuledger: devices, readings, processes, owners, accounts and
// the published snapshot. It contains types and the rules for single values, imports only the
// standard library, and does no I/O.
//
// Three conventions apply everywhere. A nil pointer means "could not be read"; it never means
// zero. Energy is counted in whole [Millijoules], so that books balance exactly. Identity
// strings are passed on unchanged from the driver and normalised by [Identity] only when they
// are shown.
package gpu
