// Package nodes labels Nodes with the identity of their GPUs, as their exporters tell
// it, and keeps the labels right.
//
// Two queues do the work of a term. The first holds exporters to be read: when one
// gets ready or restarts, when a reading wants a second one, and now and then. The
// second holds Nodes to be compared with what they should bear: when an exporter was
// read, and when the Node changes. A Node that is right costs no request.
//
// Nodes are written by one kind of request, a server-side apply that names the Node's
// UID: it cannot create a Node, and touches no other manager's fields.
package nodes
