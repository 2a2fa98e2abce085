// Package ledger charges the energy of each GPU to those who used it, so that
// the books always balance.
//
// NVML has no energy per process. What is measured is the energy of the board,
// who holds a context on it, and samples of who was active. The ledger turns
// these into accounts: an interval between two readings of the board's counter
// is settled as a whole, once every process in it is resolved to an owner, by
// the table at chargePart. All accounts of a GPU, the board's own included, move
// to the end of that interval together.
//
// The package is pure: time and readings arrive in arguments, and nothing is
// read, written or started here. The caller (the sampler) observes, settles,
// saves [Ledger.State], and only then shows the same.
package ledger
