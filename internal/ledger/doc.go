// Package ledger charges the energy of each GPU to its users, so that the books always balance.
//
// NVML does not report energy per process. It reports the energy of the board, the processes that
// have a context, and samples of the processes' activity. The ledger converts this data to
// accounts. An interval between two readings of the board's counter is settled as a whole, after
// every process in the interval has an owner. All accounts of a GPU, including the board's own
// energy, advance to the end of the settled interval together. The rules for dividing energy are a
// list in the comment of chargePart.
//
// The package is pure: time and readings are arguments; there is no I/O and no goroutine. The
// caller (the sampler) observes, settles and saves [Ledger.State], and publishes the state only
// after it is saved.
package ledger
