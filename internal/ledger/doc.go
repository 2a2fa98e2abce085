// Package ledger charges the energy of each GPU to its users, so that the books always balance.
//
// NVML does not report energy per process. It reports the energy of the board, the processes that have a context, and
// samples of the processes' activity. The ledger converts this data to accounts. The time between two readings of the
// board's counter is an interval. It is settled as a whole, once the owner of every process in it is known. All
// accounts of a GPU, and its total energy, advance together to the end of the settled interval. The comment on
// chargePart lists the rules for dividing energy.
//
// The package is pure: time and readings are arguments, and it uses neither I/O nor goroutines. The caller (the
// sampler) observes, settles and saves [Ledger.State], and publishes the state only after it is saved.
package ledger
