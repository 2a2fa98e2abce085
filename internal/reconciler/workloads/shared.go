package workloads

import "unique"

// shared returns the interned copy of a string. Many pods have common names of namespaces, nodes and kinds. The garbage
// collector frees unused copies, so arbitrary names in the pods of a tenant do not stay in memory after the pods end.
func shared(s string) string { return unique.Make(s).Value() }
