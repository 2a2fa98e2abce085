// Package amd reads AMD's Instinct GPUs from the files of the kernel driver amdgpu: sysfs of the
// PCI device, hwmon, and the processes of amdkfd. It needs no library, no device node and no
// privilege.
//
// Support is experimental, because the layouts come from the public sources of the driver, and no
// such GPU was available for tests. The kernel computes the value of a sysfs file at each open.
// Most values come from the driver's memory. Reading gpu_metrics and hwmon queries
// the GPU's firmware, and hangs if the firmware hangs. Therefore each device has a lane.
//
// GPUs are found by the links in /sys/class/drm. Devices of the class 0x0300 (Radeon) are ignored.
// amdkfd does not list their graphics clients, so it would be unknown whether a process is alone on
// such a GPU.
package amd
