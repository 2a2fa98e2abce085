// Package amd reads AMD's Instinct GPUs from files of the kernel driver amdgpu: the sysfs folder of
// the PCI device, hwmon, and amdkfd's list of processes. It needs no library, no device node and no
// privilege.
//
// Support is experimental: the layouts come from the public sources of the driver, and no such GPU was available for
// tests. The kernel computes the value of a sysfs file at each open. Most values come from the driver's memory. Reading
// gpu_metrics and hwmon queries the GPU's firmware, and hangs if the firmware hangs. Therefore the calls for each
// device run in a separate goroutine; see package lane.
//
// The package finds GPUs through the links in /sys/class/drm. It ignores devices of the class
// 0x0300 (Radeon), because amdkfd does not list their graphics clients. Therefore it would be
// unknown whether a process is alone on such a GPU.
package amd
