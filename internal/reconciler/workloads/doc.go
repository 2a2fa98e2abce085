// Package workloads finds the workload of each pod that requests GPUs. It reads the API server, because the exporters
// on the nodes have no information about workloads.
//
// For each pod that requests a GPU, by an extended resource or by a claim, the package stores a few hundred bytes
// (pod.go, claim.go). Metadata-only requests follow the owner references from a controller to the root, once for all
// pods of the controller (owner.go, lookup.go). The type book contains all state (book.go). The series are rendered
// from this state (series.go). Details that do not fit into series, such as the time of a change or the exit code of a
// restarted container, are written as events (event.go, snapshot.go).
//
// This package never writes to a pod. A finalizer would delay the deletion of every pod until this program responds. A
// finalizer is not needed either. The API server sends the last state of a deleted object to all watchers. After an
// interruption, the next list no longer contains the object.
package workloads
