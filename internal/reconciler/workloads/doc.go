// Package workloads tells which workload a pod that asks for GPUs belongs to: the
// one thing about it that its node cannot know.
//
// A pod that asks for a GPU, by an extended resource or by a claim, is kept in a few
// hundred bytes (pod.go, claim.go). Its owner references are followed to the root
// with metadata-only reads, once for each direct owner and not for each pod
// (owner.go, lookup.go). What is known stands in one book (book.go), from which the
// series are rendered (series.go). What series cannot hold, such as the moment of a
// change or the exit code of a container that was restarted, is written as one event
// each (event.go, snapshot.go).
//
// Nothing is ever written to a pod. A finalizer would make every pod of the cluster
// wait for this program when it is deleted, and would gain nothing: the API server
// delivers the last state of a deleted object to whoever watches, and what ended
// while nobody watched is settled from the next list.
package workloads
