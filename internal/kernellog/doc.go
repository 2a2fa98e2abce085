// Package kernellog reads XID errors of GPUs and SXID errors of NVSwitches from the kernel's log.
// NVML reports fewer: only XID errors that occur after the exporter registered for them, and only
// for GPUs that it can open.
package kernellog
