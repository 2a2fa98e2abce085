// Package dcgm adds values of a DCGM host engine to the readings of NVML: the fields of the
// field page, and the activity of MIG instances. It is the only importer of go-dcgm.
//
// Three properties of the binding and the engine shape it. A call before a good
// dcgmInit, or of a symbol that the library lacks, ends the process from within the
// dynamic loader: so the library is loaded and its symbols looked up before anything
// is called ([load]), and every call passes an [engine] that is open only between a
// good connection and its end. The binding has one connection for the whole process,
// without a lock, and a call may never return: so one goroutine at a time is in it,
// in a lane that nobody waits for longer than [Config.CallTimeout]. And the engine
// belongs to all its clients: groups have names of their own and are given back, few
// fields are watched and kept for seconds, and constants are read once.
//
// Values are matched by entity and field, never by position, and count only if both
// their status and their content are good. A value has the time at which the engine read
// it, which is before it is asked for.
//
// The engine's readings of energy, power and processes are not used: package nvml reads
// them at every tick, from the same driver.
package dcgm
