// Package nvml reads GPUs through the driver's own library, NVML. It is the only
// importer of go-nvml.
//
// Two properties of the binding shape it. A call before a good nvmlInit, or of a
// symbol that the driver's library lacks, ends the process from within the
// dynamic loader, where Go can neither panic nor recover: so every call passes a
// [gate] that is open only while the driver is initialised, and every symbol is
// looked up before its first use ([query]). And a call on a GPU that fell off the
// bus may never return, nor can it be cancelled: so each GPU has a [lane.Lane], a
// goroutine with at most one call in flight, which nobody waits for longer than
// [Config.CallTimeout]. A GPU whose call is late is quarantined until the call
// returns; the other GPUs do not notice.
//
// The binding links with lazy binding only: an executable built with -z now does
// not start on any machine.
package nvml
