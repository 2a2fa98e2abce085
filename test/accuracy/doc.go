// Package accuracy measures how well the exporter attributes energy. It runs the whole exporter, from the driver's C ABI
// to the accounts of the owners, on simulated nodes. The nodes use a model of the true energy that differs from the
// ledger's rule. For each owner, the package compares these energies:
//
//   - the true energy: holders share the floor equally, and every process has the power that it draws
//     (package simnode);
//   - the charge by gpuledger's rule with perfect samples: equal joules per busy second;
//   - the charge by gpuledger, from the driver's samples;
//   - the charges by other rules in common use, from the same readings.
//
// The second energy divides gpuledger's error into two parts. The samples cause the signal's error, and the rule causes
// the model's error. No exporter can avoid the model's error.
//
// Time is simulated and all random numbers have a fixed seed, so every run has the same results, unless [Case.Live] is
// set. The exporter's code finds the pods and units from a simulated kubelet, prolog and /proc. Only its timers are
// replaced, by calls of Refresh.
package accuracy

//go:generate go run -trimpath -ldflags=-extldflags=-Wl,-z,lazy ./report ../../docs/energy.md ../../docs/accuracy.md
