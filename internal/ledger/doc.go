// Package ledger charges the energy of each GPU to its users, so that the books always balance.
//
// NVML does not report energy per process. It reports the energy of the board, the processes that have a context, and
// samples of their activity. The ledger converts this data to accounts.
//
// An interval is the time between two readings of the board's counter. The ledger settles an interval as a whole, once
// it has identified the owner of every process. All accounts of a GPU, and its total energy, advance together to the
// end of the settled interval. The comment on chargePart lists the rules for dividing energy.
//
// The package is pure: time and readings are arguments, and it uses neither I/O nor goroutines. Its caller, the
// sampler, adds observations, settles intervals and saves [Ledger.State]. The sampler publishes a state only after it
// is saved.
package ledger
