// Package unit maps processes to units, which are the jobs, containers, services and users of a
// machine outside pods. It also finds the GPUs that jobs and containers hold.
//
// A unit is named by a segment of a cgroup path that only root can create. The first match from the
// root decides, because the owner of a cgroup can create cgroups with any name below it.
package unit
