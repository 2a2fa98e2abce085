// Package nvml reads GPUs through the driver's own library, NVML. It is the only importer of
// go-nvml.
//
// Two properties of the binding determine the design of this package. First, the dynamic loader ends the process in two
// cases: a function is called before a successful nvmlInit, or the driver's library lacks the function. Go cannot
// recover from this. So every call goes through a [gate] that is open only while the driver is initialised. Every
// function is looked up before its first use ([query]). Second, a call on a GPU that was lost from the bus may never
// return and cannot be cancelled. So each GPU has a [lane.Lane], a goroutine with at most one call in flight. No caller
// waits for this goroutine longer than [Config.CallTimeout]. If a call is late, its GPU is quarantined until the call
// returns; other GPUs are not affected.
//
// The Go binding requires lazy binding of symbols. The linker flag -z now disables lazy binding. An executable with
// this flag fails to start on every machine.
package nvml
