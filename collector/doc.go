// Package collector renders a snapshot as Prometheus metrics. It uses no I/O, clock or
// goroutine, because a page is a pure function of the latest [gpu.Snapshot].
//
// The table in catalogue.go is the public contract. It contains the name, type, unit and labels
// of every metric. Descriptors, docs/metrics.md and the tests are derived from this table.
package collector
