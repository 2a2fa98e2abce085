// Package dcgm adds values from a DCGM host engine to the readings from NVML: the fields for the
// field page, and the activity of MIG instances. It is the only importer of go-dcgm.
//
// Three properties of the binding and the engine determine the design of this package. First, the dynamic loader ends
// the process in two cases: a function is called before a successful dcgmInit, or the library lacks the function. So
// the package first loads the library and looks up its functions ([load]). Every later call goes through an [engine],
// which is open only while it is connected. Second, the binding has one connection for the whole process, without a
// lock, and a call may never return. So only one goroutine at a time uses the connection. This goroutine runs in a lane
// (package lane), and no caller waits for it longer than [Config.CallTimeout]. Third, all clients share the engine. So
// the package gives its groups unique names, and removes groups that are no longer needed. It watches only a few
// fields, makes the engine keep their values only for seconds, and reads constants once.
//
// Values are matched by entity and field, never by position, and are used only if both status and content are valid.
// The time of a value is the time at which the engine read it.
//
// Package nvml reads energy, power and processes at every tick from the same driver. Therefore the engine's readings of
// these values are not used.
package dcgm
