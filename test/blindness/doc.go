// Package blindness runs the shipped exporter through random schedules in which it cannot read a
// source for a while. The source is the kubelet, a driver call, /proc, a counter, the files of a
// prolog or its state directory. In some schedules the exporter itself is down. It compares every
// page with a model of the truth.
//
// [Draw] creates a [Schedule] from a seed. It contains GPUs, the owners that hold and use them, and
// spells of blindness. [Run] plays the schedule in real time on a simulated node with the fake
// driver library, a real kubelet socket and a /proc tree. A [Play] is the result: the schedule, the
// times of the spells and the pages. [Check] returns the rules that the pages violate.
//
// The model is written from the documents alone (docs/energy.md, docs/slurm.md, docs/metrics.md),
// without the code of the ledger or the sampler. It contains the holders and users of each GPU, and
// the energy of any span. It does not calculate the correct charge of each owner. It states the
// values that no page may contain.
//
// A page may lag behind the truth by the delay of readings. The tolerances are in tolerance.go.
package blindness
