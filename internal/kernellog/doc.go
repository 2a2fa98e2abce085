// Package kernellog reads XID errors from the kernel's log. NVML reports only the errors since
// the exporter registered for them, and of GPUs that it can open.
package kernellog
