// Package accuracy measures how well the books tell whose energy it was. It runs
// the exporter, from the driver's C ABI to the settled book, on simulated nodes
// whose truth comes from a model that is not the ledger's rule, and compares four
// answers to the question who used the GPU's energy:
//
//   - the truth: every holder bears an equal part of the floor, and every process
//     the watts that it draws itself (package simnode);
//   - gpuledger's rule under perfect sight: equal joules per busy second, as it
//     would charge if it saw every moment;
//   - what gpuledger charged, by the samples that the driver gives;
//   - what two rules in common use would have charged by the same readings.
//
// The second splits gpuledger's error in two: what it did not see (the signal's
// error), and what no exporter can know (the model's error).
//
// Time is simulated and all randomness has a fixed seed, so that every run gives the
// same numbers. The Kubernetes side is the real mapper over the simulated kubelet and
// /proc; only its timer is replaced by calls of Refresh.
package accuracy

//go:generate go run -ldflags=-extldflags=-Wl,-z,lazy ./report ../../docs/energy.md
