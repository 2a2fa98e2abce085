package workloads

import "unique"

// one returns a copy of s that is shared with others: names of namespaces, nodes and
// kinds, which many pods have in common. It is shared among those made between two
// garbage collections and kept by nobody else, so that what one tenant makes up is gone
// with the tenant's pods.
func one(s string) string { return unique.Make(s).Value() }
