// Package kernellog reads XID errors of GPUs and SXID errors of NVSwitches from the kernel's log. NVML reports
// only XID errors since the exporter registered for them, and of GPUs that it can open.
package kernellog
