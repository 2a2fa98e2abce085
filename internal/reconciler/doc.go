// Package reconciler assembles the program with Kubernetes credentials: it labels Nodes with
// the identity of their GPUs, and exports the workload of each GPU pod.
//
// One of several replicas is the leader: only the leader reads the cluster and writes to it. The
// others serve their own health and wait for the Lease.
package reconciler
