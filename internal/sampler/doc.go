// Package sampler is the tick: it reads the GPUs, resolves the owners of their processes, settles
// the ledger, saves its state, and publishes one immutable snapshot. Scrapes render that snapshot
// and cause no work here.
package sampler
