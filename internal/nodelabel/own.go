package nodelabel

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
)

// ordered returns the GPUs by PCI address: the one order that neither a dead GPU nor
// a swapped one changes. The driver's order shifts with the first, and the order of
// serial numbers with the second.
func ordered(gpus []inventory.GPU) []inventory.GPU {
	return slices.SortedFunc(slices.Values(gpus), func(a, b inventory.GPU) int {
		return cmp.Or(
			cmp.Compare(strings.ToUpper(a.PCIBusID), strings.ToUpper(b.PCIBusID)),
			cmp.Compare(a.UUID, b.UUID),
			cmp.Compare(a.Serial, b.Serial),
			cmp.Compare(a.Platform.ChassisSerial, b.Platform.ChassisSerial),
		)
	})
}

// SerialValue returns the label value of a board's serial number, empty if it has none.
// Serial numbers that differ can have the same one.
func SerialValue(serial string) string { return legal(gpu.Identity(serial)) }

// ownScheme returns our ownScheme labels, without prefix, and which of them name lost GPUs.
func (r Rules) ownScheme(node string, p inventory.Page, gpus []inventory.GPU) (labels map[string]string, lost []string) {
	labels = make(map[string]string)
	put := func(name, value string) {
		if value = legal(value); value != "" {
			labels[name] = value
		}
	}
	present := 0
	for n, g := range gpus {
		name := "gpu-" + strconv.Itoa(n)
		put(name, SerialValue(g.Serial))
		switch {
		case g.Present:
			present++
		case labels[name] != "":
			lost = append(lost, name)
		}
	}
	put("gpu-count", strconv.Itoa(present))
	if put("chassis", unanimous(gpus, chassis)); labels["chassis"] == "" {
		put("chassis", strings.ReplaceAll(r.ChassisFallback, "{node}", node))
	}
	put("chassis-slot", unanimous(gpus, slot))
	put("chassis-tray", unanimous(gpus, tray))
	if r.DMIChassis {
		put("dmi-chassis", gpu.Identity(p.Node.ChassisSerial))
	}
	return labels, lost
}

func chassis(g inventory.GPU) string { return gpu.Identity(g.Platform.ChassisSerial) }
func slot(g inventory.GPU) string    { return number(g.Platform.Slot) }
func tray(g inventory.GPU) string    { return number(g.Platform.Tray) }

func number(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// unanimous returns what all GPUs that say anything say, and nothing if they differ:
// a Node cannot be in two places.
func unanimous(gpus []inventory.GPU, of func(inventory.GPU) string) string {
	said := ""
	for _, g := range gpus {
		switch v := of(g); {
		case v == "" || v == said:
		case said == "":
			said = v
		default:
			return ""
		}
	}
	return said
}
