package table

import (
	"cmp"
	"slices"
	"time"
)

// Charge is a part of a board's energy in an hour. It is charged to a pod, or to a unit outside pods, such as a Slurm
// job. The remaining energy of the board is unattributed, for a reason. A Charge can also be a sum.
type Charge struct {
	// Cluster and Hour are empty in an [Hour]. They are also empty in sums over several clusters or hours.
	Cluster                string
	Hour                   time.Time
	Model                  string // model of the GPU; set only in sums
	Node, UUID, Serial     string
	Namespace, Pod, PodUID string // empty for units and unattributed energy
	Manager, Unit          string // empty for pods and unattributed energy
	Reason                 string // empty for pods and units
	// The workload is the root of the pod's owner chain. Its fields and the team, the queues and the user do not
	// identify the charge.
	WorkloadKind, WorkloadName, WorkloadUID, Team, Username string
	Queue, ClusterQueue                                     string
	// Labels contains labels of the pod; see [JoinLabels].
	Labels string
	// Energy is in mJ. Exclusive is its measured part, Idle its idle part, and Estimated the part that was divided by
	// an estimated idle power.
	Energy, Exclusive, Idle, Estimated int64
	// Held, GPUTime, Active and Busy are in ms. GPUTime is the held time, multiplied by the share of the GPU. Busy is
	// the sampled busy time.
	Held, GPUTime, Active, Busy int64
	// ThermalEnergy is the energy that was used while the driver reduced the clocks because of heat, and Thermal is the
	// time. PowerBrakeEnergy and PowerBrake are the same for the power brake. Both causes can occur at the same time.
	ThermalEnergy, Thermal, PowerBrakeEnergy, PowerBrake int64
	// Profiled is the time in ms in which the pod or unit was alone on the GPU and was profiled. TensorActive and
	// DRAMActive are the activity in this time. All three are nil if no time was profiled.
	Profiled, TensorActive, DRAMActive *int64
	// Began and Ended are times of scrapes. The counters of the pod or unit grew from Began to Ended. A new counter may
	// have its first sample in the hour but begin before the hour. Began may then be before the hour. Both times are
	// zero for unattributed energy. They do not identify the charge.
	Began, Ended time.Time
}

// charge contains the columns of charges and corrections. The amounts are the integer columns. Sums add them up.
var charge = []Field[Charge]{
	text("node", "node", func(c *Charge) *string { return &c.Node }),
	text("uuid", "UUID of the GPU", func(c *Charge) *string { return &c.UUID }),
	text("serial", "serial number of the board, empty if unknown", func(c *Charge) *string { return &c.Serial }),
	text("namespace", "namespace of the pod, empty for a unit or a reason", func(c *Charge) *string { return &c.Namespace }).inSums("namespace of the pods, empty for a unit or a reason"),
	text("pod", "name of the pod", func(c *Charge) *string { return &c.Pod }),
	text("pod_uid", "UID of the pod", func(c *Charge) *string { return &c.PodUID }),
	text("workload_kind", "kind of the workload at the root of the pod's owner chain", func(c *Charge) *string { return &c.WorkloadKind }).inSums("kind of the workload at the root of the owner chain of the pods"),
	text("workload_name", "name of the workload", func(c *Charge) *string { return &c.WorkloadName }).inSums("name of the workload"),
	text("workload_uid", "UID of the workload", func(c *Charge) *string { return &c.WorkloadUID }),
	text("team", "team: for a pod, a label of the pod or of its namespace; for a unit, its account", func(c *Charge) *string { return &c.Team }).inSums("team, as in charges"),
	text("reason", "reason for unattributed energy, empty for a pod or a unit", func(c *Charge) *string { return &c.Reason }).inSums("reason for unattributed energy, empty for pods and units"),
	integer("energy_mj", "energy in millijoules", func(c *Charge) *int64 { return &c.Energy }).inSums("energy in millijoules"),
	integer("exclusive_mj", "measured part of the energy", func(c *Charge) *int64 { return &c.Exclusive }).inSums("measured part of the energy"),
	integer("idle_mj", "idle part of the energy", func(c *Charge) *int64 { return &c.Idle }).inSums("idle part of the energy"),
	integer("held_ms", "time for which the pod or unit held the GPU, in milliseconds, summed over its containers and instances", func(c *Charge) *int64 { return &c.Held }).inSums("time for which pods or the unit held GPUs, in milliseconds"),
	integer("gpu_ms", "held_ms, weighted by the held share of the GPU", func(c *Charge) *int64 { return &c.GPUTime }).inSums("held_ms, weighted by the held share of the GPU"),
	integer("active_ms", "time in which the pod or unit worked on the GPU, in milliseconds", func(c *Charge) *int64 { return &c.Active }).inSums("time in which pods or the unit worked on GPUs, in milliseconds"),
	text("manager", "manager of the unit outside pods, such as slurm, empty for a pod or a reason", func(c *Charge) *string { return &c.Manager }).addedIn(4).inSums("manager of the unit outside pods"),
	text("unit", "name of the unit, such as a job id", func(c *Charge) *string { return &c.Unit }).addedIn(4).inSums("name of the unit"),
	text("username", "user of the unit, or the user id", func(c *Charge) *string { return &c.Username }).addedIn(4).inSums("user of the unit, or the user id"),
	integer("estimated_mj", "part of the energy that was divided among several owners based on an estimated idle power", func(c *Charge) *int64 { return &c.Estimated }).addedIn(10).inSums("part of the energy that was divided among several owners based on an estimated idle power"),
	integer("busy_ms", "time in which kernels of the pod or unit ran on the GPU, according to samples", func(c *Charge) *int64 { return &c.Busy }).addedIn(10).inSums("time in which kernels of pods or the unit ran on GPUs, according to samples"),
	moment("began", "start of the use. New counters: the time of their creation, which may be before the hour. Other counters: the scrape before the first increase, but not before the start of the hour. Empty for a reason, and in rows from earlier versions", func(c *Charge) *time.Time { return &c.Began }).addedIn(12),
	moment("ended", "end of the use: the last scrape in the hour at which a counter had increased; empty if began is empty", func(c *Charge) *time.Time { return &c.Ended }).addedIn(12),
	integer("thermal_energy_mj", "part of the energy that was used while the driver reduced the clocks because of heat", func(c *Charge) *int64 { return &c.ThermalEnergy }).addedIn(14).inSums("part of the energy that was used while the driver reduced the clocks because of heat"),
	integer("thermal_ms", "time in which the driver reduced the clocks because of heat", func(c *Charge) *int64 { return &c.Thermal }).addedIn(14).inSums("time in which the driver reduced the clocks because of heat"),
	integer("power_brake_energy_mj", "part of the energy that was used while the driver reduced the clocks because of the power brake", func(c *Charge) *int64 { return &c.PowerBrakeEnergy }).addedIn(14).inSums("part of the energy that was used while the driver reduced the clocks because of the power brake"),
	integer("power_brake_ms", "time in which the driver reduced the clocks because of the power brake", func(c *Charge) *int64 { return &c.PowerBrake }).addedIn(14).inSums("time in which the driver reduced the clocks because of the power brake"),
	text("queue", "queue of the pod in Kueue (LocalQueue), Volcano or YuniKorn", func(c *Charge) *string { return &c.Queue }).addedIn(15).inSums("queue of the pods"),
	text("cluster_queue", "ClusterQueue of the pod in Kueue", func(c *Charge) *string { return &c.ClusterQueue }).addedIn(15).inSums("ClusterQueue of the pods"),
	long("labels", labelsHelp, func(c *Charge) *string { return &c.Labels }).addedIn(16).inSums(labelsHelp),
	optional("profiled_ms", "time in which tensor_active_ms and dram_active_ms were measured, while the pod or unit was alone on the GPU; null if they were not measured", func(c *Charge) **int64 { return &c.Profiled }).addedIn(19).inSums("time in which tensor_active_ms and dram_active_ms were measured; null if they were not measured"),
	optional("tensor_active_ms", "part of profiled_ms in which the tensor cores were active", func(c *Charge) **int64 { return &c.TensorActive }).addedIn(19).inSums("part of profiled_ms in which the tensor cores were active"),
	optional("dram_active_ms", "profiled_ms, weighted by the fraction of the memory bandwidth in use", func(c *Charge) **int64 { return &c.DRAMActive }).addedIn(19).inSums("profiled_ms, weighted by the fraction of the memory bandwidth in use"),
}

// chargeKey contains the columns that identify a charge of an hour.
var chargeKey = []string{"node", "uuid", "namespace", "pod", "pod_uid", "manager", "unit", "reason"}

// ofCharge contains the columns by which readers can select charges.
var ofCharge = append([]Field[Charge]{
	text("cluster", clusterHelp, func(c *Charge) *string { return &c.Cluster }),
	moment("hour", hourHelp, func(c *Charge) *time.Time { return &c.Hour }),
	text("model", "model of the GPU", func(c *Charge) *string { return &c.Model }),
}, charge...)

// Amounts contains the columns that sums add up, such as energy and times. A sum ignores unknown values. It is unknown
// if all values are unknown, or if corrections have removed all profiled time.
var Amounts = slices.DeleteFunc(slices.Clone(charge), func(f Field[Charge]) bool { return !f.IsAmount() })

// ChargeField returns the column of charges with the given name, including cluster, hour and model. It returns false if
// there is no such column.
func ChargeField(name string) (Field[Charge], bool) { return named(ofCharge, name) }

// Text returns a pointer to the string of a charge in a column.
func (c *Charge) Text(column string) *string {
	f, _ := ChargeField(column)
	return f.Text(c)
}

// Charges contains a row for each GPU, each hour, and each pod, unit or reason. The rows of one GPU and hour add up to
// the energy of its board.
var Charges = build("charges", "a part of the energy that one GPU used in one hour. The part is charged to a pod or to a unit outside pods, or is unattributed for a reason", chargeKey,
	func(h *Hour) []Charge { return h.Charges }, charge...)

// Corrections contains changes of charges that the archive found after the month was closed.
var Corrections = build("corrections", "a correction of the charges: a difference that the archive found after the month was closed. Add the corrections to the charges", append([]string{"revision"}, chargeKey...),
	func(h *Hour) []Charge { return h.Corrections },
	append([]Field[Charge]{computed("revision", Int, "revision of the hour that contains this correction", func(h *Hour, _ *Charge) any { return h.Revision })}, charge...)...)

// Add adds the numbers of another charge.
func (c *Charge) Add(d *Charge) { c.add(d, 1) }

func (c *Charge) add(d *Charge, factor int64) {
	for i := range Amounts {
		Amounts[i].add(c, d, factor)
	}
	if c.Profiled != nil && *c.Profiled == 0 {
		c.forget()
	}
}

// forget makes the activity unknown if a correction has removed the profiled time. It keeps numbers other than 0, so
// that a sum does not depend on the order of its charges.
func (c *Charge) forget() {
	for i := range Amounts {
		if of := Amounts[i].optional; of != nil && *of(c) != nil && **of(c) == 0 {
			*of(c) = nil
		}
	}
}

// Clear sets all numbers to 0. Numbers that can be unknown become unknown.
func (c *Charge) Clear() {
	for i := range Amounts {
		Amounts[i].clear(c)
	}
}

// IsZero reports whether all numbers are 0 or unknown.
func (c *Charge) IsZero() bool {
	for i := range Amounts {
		if n := Amounts[i].amount(c); n != nil && *n != 0 {
			return false
		}
	}
	return true
}

func (c *Charge) key() (key Charge) {
	for _, f := range charge {
		if slices.Contains(chargeKey, f.Name) {
			*f.text(&key) = *f.text(c)
		}
	}
	return key
}

func (c Charge) compare(d Charge) int {
	return cmp.Or(
		cmp.Compare(c.Node, d.Node), cmp.Compare(c.UUID, d.UUID), cmp.Compare(c.Reason, d.Reason),
		cmp.Compare(c.Namespace, d.Namespace), cmp.Compare(c.Pod, d.Pod), cmp.Compare(c.PodUID, d.PodUID),
		cmp.Compare(c.Manager, d.Manager), cmp.Compare(c.Unit, d.Unit),
	)
}

// Difference returns the charges minus earlier charges, sorted.
func Difference(before, now []Charge) []Charge {
	all := make(map[Charge]*Charge)
	of := func(c *Charge) *Charge {
		k := c.key()
		if all[k] == nil {
			first := *c
			first.Clear()
			all[k] = &first
		}
		return all[k]
	}
	for i := range now {
		of(&now[i]).Add(&now[i])
	}
	for i := range before {
		of(&before[i]).add(&before[i], -1)
	}
	var changed []Charge
	for _, c := range all {
		if !c.IsZero() {
			changed = append(changed, *c)
		}
	}
	slices.SortFunc(changed, Charge.compare)
	return changed
}

// ChargeIn converts a row of charges or corrections. It keeps the team and the workload. The correction of a removed
// charge needs them, because it reduces their bill.
func ChargeIn(t Table, row []any) (c Charge) {
	for _, f := range charge {
		f.set(&c, t.value(row, f.Name))
	}
	return c
}
