package nodelabel

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/gpuledger/gpuledger/internal/inventory"
)

// unknown is gpuid's value for an empty string in the inventory. nvidia-smi prints this value if NVML returns an error.
const unknown = "N/A"

// gpuid returns the labels of mchmarny/gpuid without their prefix. It numbers boards in the order of their serial
// numbers, so a replaced board changes the numbers of other boards. Only boards with a GPU that responds have labels.
// Serial numbers that consist of zeros are kept.
func gpuid(gpus []inventory.GPU) map[string]string {
	boards := make(map[string]map[string]bool) // serial numbers of boards, by chassis
	for _, g := range gpus {
		if !g.Present {
			continue
		}
		c := cmp.Or(g.Platform.ChassisSerial, unknown)
		if orNA(c) == "na" {
			c = unknown // these boards form one group; mchmarny/gpuid makes several groups, which overwrite each other
		}
		if boards[c] == nil {
			boards[c] = make(map[string]bool)
		}
		boards[c][cmp.Or(g.Serial, unknown)] = true
	}
	labels := make(map[string]string)
	known := 0
	for i, c := range slices.Sorted(maps.Keys(boards)) {
		name := "chassis"
		if len(boards) > 1 {
			name += "-" + strconv.Itoa(i)
		}
		key := "gpu-"
		if c != unknown {
			known++
			labels[name] = orNA(c)
			if len(boards) > 1 {
				key = name + "-gpu-"
			}
		}
		for j, serial := range slices.Sorted(maps.Keys(boards[c])) {
			labels[key+strconv.Itoa(j)] = orNA(serial)
		}
	}
	if known > 0 {
		labels["chassis-count"] = strconv.Itoa(known)
	}
	return labels
}

// orNA returns gpuid's value for a string. It shortens values that the API server would reject.
func orNA(raw string) string {
	if v := legal(raw); raw != unknown && v != "" {
		return v
	}
	return "na"
}
