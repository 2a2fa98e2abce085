package workloads

import "unique"

// shared returns the interned copy of a string. It is used for names of namespaces, nodes and kinds that many pods have
// in common. The garbage collector removes the copy when nothing uses it any more, so names that a tenant invents
// disappear with the tenant's pods.
func shared(s string) string { return unique.Make(s).Value() }
