// Package nodes labels Nodes with the identity of their GPUs, which their exporters report.
//
// A term has two work queues. The first queue contains exporters to read. These are exporters that
// became ready or restarted, readings to confirm, and periodic checks. The second queue contains
// Nodes to compare with their desired state. Nodes are queued after a reading and when the Node
// changes. A correct Node costs no request.
//
// Nodes are written by server-side apply with the Node's UID, which cannot create a Node and does
// not change fields of other managers.
package nodes
