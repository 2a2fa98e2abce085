// Package gpu is the vocabulary of gpuledger: devices, readings, processes,
// owners, accounts and the snapshot that is published. It holds types and the
// rules that belong to a single value, imports the standard library only, and
// does no I/O.
//
// Three conventions hold everywhere. A nil pointer means "could not be read",
// never zero. Energy is counted in whole [Millijoules], so that books can
// balance exactly. Identity strings are carried as the driver gave them and
// normalised by [Identity] only where they are shown.
package gpu
