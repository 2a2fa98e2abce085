// Package nodes labels Nodes with the identity of their GPUs, which their exporters report.
//
// A term has two work queues. The first queue contains exporters that must be read, because they became ready or
// restarted, because a reading must be confirmed, or because a periodic check is due. The second queue contains Nodes
// that must be compared with their desired state. A Node is queued after its exporter was read, and after the Node
// changed. A correct Node causes no request.
//
// Nodes are written by server-side apply with the Node's UID. Such a write cannot create a Node and does not change
// fields of other managers.
package nodes
