package workloads

import "unique"

// shared returns the interned copy of a string: names of namespaces, nodes and kinds that many
// pods have in common. The garbage collector removes it with its last user, so names invented
// by a tenant disappear with the tenant's pods.
func shared(s string) string { return unique.Make(s).Value() }
