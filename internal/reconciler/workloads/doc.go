// Package workloads finds the workload of each pod that requests GPUs, which its node cannot
// know.
//
// A pod that requests a GPU, by an extended resource or by a claim, is kept in a few hundred bytes
// (pod.go, claim.go). Its owner references are followed to the root with metadata-only requests,
// once for each direct owner and not for each pod (owner.go, lookup.go). The state is one book
// (book.go), from which the series are rendered (series.go). Facts that do not fit into series,
// such as the time of a change or the exit code of a restarted container, are written as events
// (event.go, snapshot.go).
//
// Pods are never written. A finalizer would make the deletion of every pod in the cluster wait
// for this program without any benefit: the API server sends the last state of a deleted object
// to its watchers, and missed deletions are detected by the next list.
package workloads
