package simnode

import "fmt"

// links is the number of NVLink links of a GPU.
const links = 18

// zeroHealth are fields of NVML that stay 0 on a healthy GPU: ECC errors, retired pages, PCIe and
// NVLink errors, limited clocks (nvml.h, NVML_FI_DEV_*).
var zeroHealth = []int{11, 12, 22, 23, 29, 30, 31, 38, 45, 52, 59, 74, 76, 77, 78, 79, 94, 169, 173, 174, 175, 176, 177, 178, 179, 180, 181, 182, 183}

// writeHealth adds values of health, as a Hopper GPU without errors reports them.
func writeHealth(r *record, b *board) {
	fields := []any{"gpu", b.UUID}
	field := func(id int, value any) { fields = append(fields, fmt.Sprintf("field%d", id), value) }
	field(1, 1)
	field(2, 1)
	for _, id := range zeroHealth {
		field(id, 0)
	}
	traffic := uint64(b.counter()) // any number that only grows
	field(82, b.memoryTemperature())
	field(188, b.MaxLimit*1000)
	field(189, b.MaxLimit*1000)
	field(190, b.Limit*1000)
	field(197, 3_000*traffic)
	field(198, 5_000*traffic)
	generation, state := 1, 8
	if b.busy > 0 {
		generation, state = 5, 0
	}
	fields = append(fields,
		"sram_volatile_corrected", 0, "sram_volatile_uncorrected", 0, "sram_aggregate_corrected", 0, "sram_aggregate_uncorrected", 0,
		"sram_threshold", 0, "pcie_generation", generation, "pcie_generation_max", 5, "pcie_width", 16, "pcie_width_max", 16, "pstate", state)
	if b.MIG == nil {
		fields = append(fields, "banks_max", 640, "banks_high", 0, "banks_partial", 0, "banks_low", 0, "banks_none", 0, "encoder", 0, "decoder", 0)
	}
	r.line("health", fields...)
	if b.GPM && b.MIG == nil {
		writeProfile(r, b)
	}

	fields = []any{"gpu", b.UUID, "field138.all", 9 * traffic, "field139.all", 9 * traffic}
	for link := range links {
		name := fmt.Sprintf("field165.%d", link)
		if link == 0 {
			name = "field165"
		}
		fields = append(fields, name, 1)
	}
	r.line("health", fields...)
}

// writeProfile adds the GPM metrics of a GPU by their numbers in nvml.h: activities in percent, rates in MiB/s.
func writeProfile(r *record, b *board) {
	r.line("health", "gpu", b.UUID, "gpm1", b.busy, "gpm2", b.busy, "gpm3", b.busy/2, "gpm5", b.busy/3, "gpm10", b.busy/2,
		"gpm11", 0, "gpm12", b.busy/5, "gpm13", b.busy/10, "gpm20", 10*b.busy, "gpm21", 5*b.busy, "gpm60", 100*b.busy, "gpm61", 110*b.busy)
}
