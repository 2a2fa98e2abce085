// Package blindness drives the exporter that ships through random schedules in which it cannot see
// something for a while: the kubelet, a driver call, /proc, a counter, a prolog's files, its state
// directory, or anything because it is down. It compares every page with a model of the truth.
//
// [Draw] makes a [Schedule] from a seed: GPUs, the owners that hold and use them, and spells of
// blindness. [Run] plays it in real time on a simulated node with the fake driver library, a real
// kubelet socket and a /proc tree. A [Play] is the result: the schedule, the times of the spells and
// the pages. [Check] returns the rules that its pages break.
//
// The model is written from the documents alone (docs/energy.md, docs/slurm.md, docs/metrics.md),
// without the code of the ledger or the sampler. It contains the holders and users of
// each GPU, and the energy of any span. It does not calculate what each owner should pay. It states
// what no page may show.
//
// A page may lag behind the truth by the delay of readings. The tolerances are in tolerance.go.
package blindness
