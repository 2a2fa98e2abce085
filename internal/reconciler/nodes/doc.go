// Package nodes labels each Node with the identity of its GPUs, which the exporter on the Node reports.
//
// The leader has two work queues. The first queue contains exporters that must be read. An exporter is queued when it
// becomes ready or restarts, when a second reading must confirm the first, and for periodic checks. The second queue
// contains Nodes that must be compared with their desired state. A Node is queued when its exporter was read and when
// the Node changed. A Node that is already in its desired state is not written.
//
// Nodes are written by server-side apply with the Node's UID. Such a write cannot create a Node and does not change
// fields of other managers.
package nodes
