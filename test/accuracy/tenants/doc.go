// Package tenants simulates shared GPUs in steps of a millisecond, and attributes their energy with a ledger. It uses
// no exporter, no files and no driver. A simulated hour takes a fraction of a second. Therefore the package can measure
// loads that are shorter than the steps of package simnode, and attacks that last for days.
//
// A GPU always draws the floor, and the running tenant adds its own power. With time-slicing, only one tenant runs at a
// time. The ledger gets one observation per second with the data that the NVML source would read: the counter, the
// contexts, the allocations, and samples of the process that ran at a moment.
//
// No measurement shows which tenant used the floor. There are two definitions:
//
//   - floor shared: the holders always share the floor;
//   - user pays: the running tenant pays the floor. While nothing runs, the holders share it. This is the rule of
//     docs/energy.md.
//
// All random numbers have a fixed seed, so every run has the same results.
package tenants
