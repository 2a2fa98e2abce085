// Package reconciler assembles gpuledger-reconciler. The program labels each Node with the identity of its GPUs, and
// exports the workload of each GPU pod.
//
// One of the replicas is the leader. Only the leader reads Nodes and pods, and only the leader writes to the cluster.
// The other replicas serve their own health and wait for the Lease. If the webhook is enabled, every replica serves the
// webhook, and reads the webhook's parameters and certificate.
package reconciler
