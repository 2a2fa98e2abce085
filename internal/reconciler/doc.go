// Package reconciler assembles the program that has Kubernetes credentials. The program labels each Node with the
// identity of the Node's GPUs, and exports the workload of each GPU pod.
//
// One of the replicas is the leader. Only the leader reads the cluster and writes to it. The other replicas serve their
// own health and wait for the Lease.
package reconciler
