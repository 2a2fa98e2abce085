// Package blindness plays random schedules of outages. In an outage, the shipped exporter cannot read the kubelet, a
// driver call, /proc, an energy counter, a prolog's files or the state directory for a while. In some schedules, the
// exporter itself is down. The package compares every page of the exporter with a model of the truth.
//
// [Draw] creates a [Schedule] from a seed. A schedule contains GPUs, the pods and jobs that hold and use the GPUs, and
// the outages (type [Spell]). [Run] plays the schedule in real time on a simulated node with the fake driver library, a
// real kubelet socket and a /proc tree. Its result, a [Play], contains the pages and the actual times of the outages.
// [Check] returns the rules that the pages violate.
//
// The model is based only on the documents (docs/energy.md, docs/slurm.md, docs/metrics.md) and not on the code of the
// ledger or the sampler. It contains the holders and users of each GPU, and the energy in any span. The model does not
// calculate the correct charge of each owner. It defines the values that no page may contain.
//
// A page may lag behind the truth by the delay of readings. The tolerances are in tolerance.go.
package blindness
