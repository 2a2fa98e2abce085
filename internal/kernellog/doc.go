// Package kernellog reads XID errors of GPUs and SXID errors of NVSwitches from the kernel log. NVML reports fewer
// errors. It reports only XID errors that occur after the exporter registered for events, and only for GPUs that NVML
// can open.
package kernellog
