package workloads

import "unique"

// shared returns the interned copy of a string, for names of namespaces, nodes and kinds that many pods have in common.
// The garbage collector frees unused copies, so names that a tenant invents disappear with the tenant's pods.
func shared(s string) string { return unique.Make(s).Value() }
