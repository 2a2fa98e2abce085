// Package nodes labels each Node with the identity of its GPUs, which the exporter on the Node reports.
//
// The leader has two work queues. The first queue contains exporters that must be read: because they became ready or
// restarted, because a second reading must confirm the first, or because a periodic check is due. The second queue
// contains Nodes that must be compared with their desired state, because their exporter was read or because they
// changed. A Node in the desired state is not written.
//
// Nodes are written by server-side apply with the Node's UID. Such a write cannot create a Node and does not change
// fields of other managers.
package nodes
