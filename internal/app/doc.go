// Package app wires the exporter: flags in, HTTP out, and between them the
// sources, the mapper, the sampler and the collector. Everything that runs is a
// Run(ctx) error in one group.
package app
