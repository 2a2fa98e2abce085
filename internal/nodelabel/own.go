package nodelabel

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
)

// ordered sorts the GPUs by PCI address. The driver's indexes change if a GPU fails, and serial numbers change if a GPU
// is replaced.
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

// SerialValue returns the label value for a board's serial number. It is empty if the serial number is invalid.
// Different serial numbers can have the same label value.
func SerialValue(serial string) string { return legal(gpu.Identity(serial)) }

// ownScheme returns the labels in this program's own scheme, and the keys of the labels for lost GPUs. The keys have no
// prefix.
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

// unanimous returns the common value of all GPUs with a value. If the values differ, it returns an empty string,
// because a Node is in only one place.
func unanimous(gpus []inventory.GPU, of func(inventory.GPU) string) string {
	common := ""
	for _, g := range gpus {
		switch v := of(g); {
		case v == "" || v == common:
		case common == "":
			common = v
		default:
			return ""
		}
	}
	return common
}
