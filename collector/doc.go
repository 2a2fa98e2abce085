// Package collector renders a snapshot as Prometheus metrics. It does no I/O,
// knows no clock and starts no goroutine: what a scrape shows is a pure function
// of the latest [gpu.Snapshot].
//
// The table in catalogue.go is the public contract: the name, type, unit and
// labels of every metric. Descriptors, docs/metrics.md and the tests come from
// it, and no other file names a metric.
package collector
