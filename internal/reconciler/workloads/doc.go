// Package workloads tells which workload a pod that asks for GPUs belongs to: the
// one thing about it that its node cannot know.
package workloads
