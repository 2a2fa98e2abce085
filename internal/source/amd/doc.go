// Package amd reads AMD's Instinct GPUs from the files of the kernel driver amdgpu: sysfs of the
// PCI device, hwmon, and the processes of amdkfd. It needs no library, no device node and no
// privilege.
//
// Support is experimental: the layouts are from the public sources of the driver, and no such GPU
// was available. A file in sysfs has a fresh value for each time that it is opened. Most are
// answered from the driver's memory; gpu_metrics and hwmon ask the GPU's firmware, and hang if
// that hangs. So each device has a lane.
//
// GPUs are found by the links in /sys/class/drm. Devices of the class 0x0300 (Radeon) are ignored:
// their clients for graphics are not listed by amdkfd, so a process could not be known to be alone.
package amd
