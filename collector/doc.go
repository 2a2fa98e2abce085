// Package collector renders a snapshot as Prometheus metrics. It has no I/O, clock or
// goroutine: a page is a pure function of the latest [gpu.Snapshot].
//
// The table in catalogue.go is the public contract: name, type, unit and labels of every
// metric. Descriptors, docs/metrics.md and the tests are derived from it, and no other file
// names a metric.
package collector
