// Package sampler implements the tick. It reads the GPUs, resolves the owners of their processes,
// settles the ledger, saves the state of the ledger, and publishes one immutable snapshot. Scrapes
// render that snapshot and cause no work in this package.
package sampler
