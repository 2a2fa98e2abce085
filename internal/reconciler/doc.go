// Package reconciler wires the program that has Kubernetes credentials and sees no
// GPU: it labels Nodes with the identity of their GPUs, and tells which workload a
// GPU pod belongs to.
//
// Several replicas run, and one of them leads: only it reads the cluster and writes
// to it. The others serve their own health and wait for the Lease.
package reconciler
