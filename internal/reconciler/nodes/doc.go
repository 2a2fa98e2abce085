// Package nodes labels each Node with the identity of the Node's GPUs. The exporter on the Node reports this identity.
//
// A term has two work queues. The first queue contains exporters that must be read. There are three reasons: the
// exporter became ready or restarted, a reading must be confirmed, or a periodic check is due. The second queue
// contains Nodes. Each of them must be compared with its desired state. A Node is queued after its exporter was read,
// and after the Node changed. A correct Node causes no request.
//
// Nodes are written by server-side apply with the Node's UID. Such a write cannot create a Node and does not change
// fields of other managers.
package nodes
