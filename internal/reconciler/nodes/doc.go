// Package nodes labels each Node with the identity of the Node's GPUs. The exporter on the Node reports this identity.
//
// A term has two work queues. The first queue contains exporters that must be read. An exporter must be read for
// one of three reasons: it became ready or restarted, its last reading must be confirmed, or a periodic check is
// due. The second queue contains Nodes. Each Node in this queue must be compared with its desired state. A Node is
// queued after its exporter was read, and after the Node changed. For a Node in the desired state, no request is
// sent.
//
// Nodes are written by server-side apply with the Node's UID. Such a write cannot create a Node and does not change
// fields of other managers.
package nodes
