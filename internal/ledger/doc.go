// Package ledger charges the energy of each GPU to its users, so that the books always balance.
//
// NVML does not report energy per process. It reports the energy of the board, the processes with a
// context, and samples of their activity. The ledger converts this data to accounts. An interval
// between two readings of the board's counter is settled as a whole, after every process in the
// interval has an owner. The comment of chargePart contains the table of the rules. All accounts of
// a GPU, including the board's own energy, advance to the end of that interval together.
//
// The package is pure: time and readings are arguments; there is no I/O and no goroutine. The
// caller (the sampler) observes, settles, saves [Ledger.State], and only then publishes it.
package ledger
