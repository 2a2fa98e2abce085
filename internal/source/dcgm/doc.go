// Package dcgm adds values from a DCGM host engine to the readings from NVML: the fields for the
// field page, and the activity of MIG instances. It is the only importer of go-dcgm.
//
// Three properties of the binding and the engine determine the design of this package. First, a call before a
// successful dcgmInit, or a call to a symbol that the library lacks, ends the process inside the dynamic loader. So the
// package first loads the library and looks up its symbols ([load]), and every later call goes through an [engine],
// which is open only while it is connected. Second, the binding has one connection for the whole process, without a
// lock, and a call may never return. So only one goroutine at a time uses the connection. It runs in a lane, and no
// caller waits for it longer than [Config.CallTimeout]. Third, all clients share the engine. So the package gives its
// groups unique names, removes them when they are no longer needed, watches only a few fields, lets the engine keep
// their values only for seconds, and reads constants once.
//
// Values are matched by entity and field, never by position, and are used only if both status and content are valid.
// The time of a value is the time at which the engine read it.
//
// The engine's readings of energy, power and processes are not used, because package nvml reads
// these values at every tick from the same driver.
package dcgm
