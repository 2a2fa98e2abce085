// Package sampler implements the tick of the exporter. A tick reads the GPUs, resolves the owners of their processes,
// settles the ledger, saves the ledger's state, and publishes one immutable snapshot. Scrapes render this snapshot and
// cause no work in this package.
package sampler
