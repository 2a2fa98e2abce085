// Package unit maps processes to units. A unit is a job, a container, a service or a user outside pods. The package
// also finds the GPUs that jobs and containers hold.
//
// A segment of a cgroup path identifies a unit. Only root can create this segment. If several segments match, the
// segment nearest to the root counts, because the owner of a cgroup can create cgroups with any name below it.
package unit
