// Package accuracy measures how well the books attribute energy. It runs the exporter, from the driver's C
// ABI to the settled book, on simulated nodes with a model of the true energy that differs from the ledger's
// rule, and compares the energy of each owner
//
//   - in truth: holders share the floor equally, and every process has the power that it draws
//     (package simnode);
//   - by gpuledger's rule with perfect samples: equal joules per busy second;
//   - as gpuledger charged it, from the driver's samples;
//   - by other rules in common use, from the same readings.
//
// The second comparison separates gpuledger's error into the error of its samples (the signal's error) and
// the error of its rule (the model's error), which no exporter can avoid.
//
// Time is simulated and all random numbers have a fixed seed, so every run has the same results. The real
// mappers map pods and units, using the simulated kubelet, prolog and /proc. Only the mappers' timers are
// replaced by calls of Refresh.
package accuracy

//go:generate go run -ldflags=-extldflags=-Wl,-z,lazy ./report ../../docs/energy.md ../../docs/accuracy.md
