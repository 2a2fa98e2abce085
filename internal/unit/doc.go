// Package unit maps processes to units. A unit is a job, a container, a service or a user outside
// pods. It also finds the GPUs that jobs and containers hold.
//
// A unit is identified by a segment of a cgroup path that only root can create. If several segments
// match, the segment nearest to the root is used, because the owner of a cgroup can create cgroups
// with any name below it.
package unit
