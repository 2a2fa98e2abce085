package fold

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Except boardEnergy and eccErrors, these metrics are not counters.
const (
	placement    = "gpuledger_placement_info"
	source       = "gpuledger_board_energy_source_info"
	boardCreated = "gpuledger_board_created_timestamp_seconds"
	podCreated   = "gpuledger_allocation_created_timestamp_seconds"
	unitCreated  = "gpuledger_unit_allocation_created_timestamp_seconds"
	boardEnergy  = "gpuledger_board_energy_joules_total"
	eccErrors    = "gpuledger_board_ecc_errors_total"
	lowBanks     = "gpuledger_board_low_memory_banks"
	recovery     = "gpuledger_board_recovery_action_info"
)

// counter is a counter of the exporter. Labels in by distinguish the series of the same GPU. The function add adds an
// increase to a field of the rows.
type counter struct {
	name string
	by   []string
	unit float64 // 1000 for millijoules and milliseconds
	kind kind
	// created is the metric with the created timestamp of the counter. It is empty if there is no such metric.
	created string
	add     func(r *rows, a Account, increase int64)
}

var (
	podLabels  = []string{"namespace", "pod", "pod_uid"}
	unitLabels = []string{"manager", "unit"}
)

var counters = slices.Concat(boards, owned("gpuledger_allocation_", podLabels, podCreated, (*rows).pod), owned("gpuledger_unit_allocation_", unitLabels, unitCreated, (*rows).unit))

var boards = []counter{
	{boardEnergy, nil, 1000, energy, boardCreated, func(r *rows, a Account, n int64) { r.gpu(a).Energy += n }},
	{"gpuledger_board_unattributed_energy_joules_total", []string{"reason"}, 1000, energy, boardCreated, func(r *rows, a Account, n int64) { r.reason(a, a.labels[0]).Energy += n }},
	{"gpuledger_board_uncounted_energy_bound_joules_total", nil, 1000, bound, boardCreated, func(r *rows, a Account, n int64) { r.gpu(a).Uncounted += n }},
	{"gpuledger_board_estimated_energy_joules_total", nil, 1000, energy, boardCreated, func(r *rows, a Account, n int64) { r.gpu(a).Estimated += n }},
	{"gpuledger_board_xid_errors_total", []string{"xid"}, 1, health, boardCreated, func(r *rows, a Account, n int64) { addXID(r.gpu(a), a.labels[0], n) }},
	{"gpuledger_board_losses_total", nil, 1, health, boardCreated, func(r *rows, a Account, n int64) { r.gpu(a).Losses += n }},
	{"gpuledger_board_energy_resets_total", nil, 1, health, boardCreated, func(r *rows, a Account, n int64) { r.gpu(a).EnergyResets += n }},
	{"gpuledger_board_remapped_rows_total", []string{"error"}, 1, hardware, "", func(r *rows, a Account, n int64) { addRemapped(r.gpu(a), a.labels[0], n) }},
	{eccErrors, []string{"memory", "error"}, 1, hardware, "", func(r *rows, a Account, n int64) { addECC(r.gpu(a), a.labels[0], a.labels[1], n) }},
	{"gpuledger_board_ras_errors_total", []string{"memory", "error"}, 1, hardware, "", func(r *rows, a Account, n int64) { addECC(r.gpu(a), a.labels[0], a.labels[1], n) }},
	{"gpuledger_board_retired_pages_total", nil, 1, hardware, "", func(r *rows, a Account, n int64) { increase(&r.gpu(a).RetiredPages, n) }},
	{"gpuledger_board_pcie_replays_total", nil, 1, hardware, "", func(r *rows, a Account, n int64) { increase(&r.gpu(a).PCIeReplays, n) }},
	{"gpuledger_board_nvlink_errors_total", nil, 1, hardware, "", func(r *rows, a Account, n int64) { increase(&r.gpu(a).NVLinkErrors, n) }},
	{"gpuledger_board_thermal_throttled_seconds_total", nil, 1000, hardware, boardCreated, func(r *rows, a Account, n int64) { increase(&r.gpu(a).Thermal, n) }},
	{"gpuledger_board_power_brake_throttled_seconds_total", nil, 1000, hardware, boardCreated, func(r *rows, a Account, n int64) { increase(&r.gpu(a).PowerBrake, n) }},
}

// amounts lists the counters of pods and units. The names lack their prefix, such as gpuledger_allocation_.
var amounts = []struct {
	name string
	kind kind
	of   func(*table.Charge) *int64
}{
	{"energy_joules_total", energy, func(c *table.Charge) *int64 { return &c.Energy }},
	{"exclusive_energy_joules_total", energy, func(c *table.Charge) *int64 { return &c.Exclusive }},
	{"idle_energy_joules_total", energy, func(c *table.Charge) *int64 { return &c.Idle }},
	{"estimated_energy_joules_total", energy, func(c *table.Charge) *int64 { return &c.Estimated }},
	{"seconds_total", held, func(c *table.Charge) *int64 { return &c.Held }},
	{"gpu_seconds_total", gpuTime, func(c *table.Charge) *int64 { return &c.GPUTime }},
	{"active_seconds_total", held, func(c *table.Charge) *int64 { return &c.Active }},
	{"busy_seconds_total", held, func(c *table.Charge) *int64 { return &c.Busy }},
}

// throttled lists the counters of owners with the cause of throttling as the last label. A cause without a column is
// not filed.
var throttled = []struct {
	name string
	kind kind
	of   map[string]func(*table.Charge) *int64
}{
	{"throttled_joules_total", laterEnergy, map[string]func(*table.Charge) *int64{
		"thermal": func(c *table.Charge) *int64 { return &c.ThermalEnergy }, "power_brake": func(c *table.Charge) *int64 { return &c.PowerBrakeEnergy },
	}},
	{"throttled_seconds_total", laterHeld, map[string]func(*table.Charge) *int64{
		"thermal": func(c *table.Charge) *int64 { return &c.Thermal }, "power_brake": func(c *table.Charge) *int64 { return &c.PowerBrake },
	}},
}

// profiled lists the counters of pods and units that are absent while the GPU is not profiled. If a charge has no
// profiled time, these fields are nil.
var profiled = []struct {
	name string
	of   func(*table.Charge) **int64
}{
	{"profiled_seconds_total", func(c *table.Charge) **int64 { return &c.Profiled }},
	{"tensor_active_seconds_total", func(c *table.Charge) **int64 { return &c.TensorActive }},
	{"dram_active_seconds_total", func(c *table.Charge) **int64 { return &c.DRAMActive }},
}

// owned returns the counters of pods or of units. The labels in by identify a pod or a unit on a GPU.
func owned(prefix string, by []string, created string, charge func(*rows, Account) *table.Charge) (all []counter) {
	for _, amount := range amounts {
		all = append(all, counter{prefix + amount.name, by, 1000, amount.kind, created, func(r *rows, a Account, n int64) { *amount.of(charge(r, a)) += n }})
	}
	for _, p := range profiled {
		all = append(all, counter{prefix + p.name, by, 1000, laterHeld, created, func(r *rows, a Account, n int64) { increase(p.of(charge(r, a)), n) }})
	}
	for _, t := range throttled {
		all = append(all, counter{prefix + t.name, append(slices.Clone(by), "throttle"), 1000, t.kind, created, func(r *rows, a Account, n int64) {
			if of := t.of[a.labels[len(by)]]; of != nil {
				*of(charge(r, a)) += n
			}
		}})
	}
	return all
}

// Metrics returns the metrics that [Fold] reads in an hour.
func Metrics() []string { return append([]string{placement, source, lowBanks, recovery}, Opened()...) }

// Opened returns the metrics for which Fold needs opening values.
func Opened() []string {
	var names []string
	for _, c := range slices.Concat(created, counters) {
		names = append(names, c.name)
	}
	return names
}

var opened = func() map[string]*counter {
	all := make(map[string]*counter)
	for _, group := range [][]counter{counters, created} {
		for i := range group {
			all[group[i].name] = &group[i]
		}
	}
	return all
}()

var created = []counter{{name: boardCreated}, {name: podCreated, by: podLabels}, {name: unitCreated, by: unitLabels}}
