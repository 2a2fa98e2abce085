package workloads

import "unique"

// shared returns the one copy of a string that is held: names of namespaces, nodes and
// kinds, which many pods have in common. It is one among those made between two garbage
// collections and kept by nobody else, so that what one tenant makes up is gone with the
// tenant's pods.
func shared(s string) string { return unique.Make(s).Value() }
