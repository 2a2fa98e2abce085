package fold

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

type chargeKey struct {
	gpuKey
	pod    [3]string
	unit   [2]string
	reason string
}

type rows struct {
	gpus    map[gpuKey]*table.GPU
	charges map[chargeKey]*table.Charge
	refused map[gpuKey]*BoardError
}

func (r *rows) gpu(a Account) *table.GPU { return r.at(a.gpuKey) }

func (r *rows) at(k gpuKey) *table.GPU {
	if r.gpus[k] == nil {
		r.gpus[k] = &table.GPU{Node: k.node, UUID: k.uuid}
	}
	return r.gpus[k]
}

func (r *rows) charge(k chargeKey) *table.Charge {
	if r.charges[k] == nil {
		r.charges[k] = &table.Charge{
			Node: k.node, UUID: k.uuid, Namespace: k.pod[0], Pod: k.pod[1], PodUID: k.pod[2], Manager: k.unit[0], Unit: k.unit[1], Reason: k.reason,
		}
	}
	return r.charges[k]
}

func (r *rows) pod(a Account) *table.Charge {
	return r.charge(chargeKey{gpuKey: a.gpuKey, pod: [3]string(a.labels[:3])})
}

func (r *rows) unit(a Account) *table.Charge {
	return r.charge(chargeKey{gpuKey: a.gpuKey, unit: [2]string{a.labels[0], a.labels[1]}})
}

func (r *rows) reason(a Account, reason string) *table.Charge {
	return r.charge(chargeKey{gpuKey: a.gpuKey, reason: reason})
}

func addXID(g *table.GPU, code string, n int64) {
	if n == 0 {
		return
	}
	if g.XIDs == nil {
		g.XIDs = make(table.Counts)
	}
	g.XIDs[code] += n
}

func addRemapped(g *table.GPU, kind string, n int64) {
	if kind == "correctable" {
		g.RemappedCorrectable += n
	} else {
		g.RemappedUncorrectable += n
	}
}

// addECC adds memory errors. memory is "dram" or "sram", and kind is "correctable" or "uncorrectable".
func addECC(g *table.GPU, memory, kind string, n int64) {
	of := map[string]**int64{
		"dram correctable": &g.DRAMCorrectable, "dram uncorrectable": &g.DRAMUncorrectable,
		"sram correctable": &g.SRAMCorrectable, "sram uncorrectable": &g.SRAMUncorrectable,
	}[memory+" "+kind]
	if of != nil {
		increase(of, n)
	}
}

func increase(to **int64, n int64) {
	if *to == nil {
		*to = new(int64)
	}
	**to += n
}

// levels adds values that are not increases, from the last scrape. All series belong to the same GPU.
func (r *rows) levels(series map[string][]Series) {
	for _, s := range latest(series[lowBanks]) {
		if n := s.Samples[len(s.Samples)-1].Value; isExact(n) {
			r.at(gpuOf(s.Labels)).LowMemoryBanks = new(int64(n))
		}
	}
	for _, s := range latest(series[recovery]) {
		r.at(gpuOf(s.Labels)).RecoveryAction = s.Labels.Get("action")
	}
	memories := make(map[string]int64)
	for _, s := range latest(series[eccErrors]) {
		if n := s.Samples[len(s.Samples)-1].Value; isExact(n) && s.Labels.Get("error") == "uncorrectable" {
			g, memory := r.at(gpuOf(s.Labels)), s.Labels.Get("memory")
			increase(&g.LifetimeUncorrectable, int64(n)-memories[memory])
			memories[memory] = int64(n)
		}
	}
}

func latest(series []Series) []Series {
	return slices.SortedFunc(slices.Values(series), func(a, b Series) int {
		return cmp.Compare(a.Samples[len(a.Samples)-1].Time, b.Samples[len(b.Samples)-1].Time)
	})
}

// place adds the attributes from the last scrape of each GPU.
func (r *rows) place(series map[string][]Series) {
	for _, s := range latest(series[boardEnergy]) {
		r.at(gpuOf(s.Labels)).Serial = s.Labels.Get("serial")
	}
	for _, s := range latest(series[source]) {
		g := r.at(gpuOf(s.Labels))
		g.EnergySource, g.EnergyScope = s.Labels.Get("source"), s.Labels.Get("scope")
	}
	for _, s := range latest(series[placement]) {
		l, g := s.Labels, r.at(gpuOf(s.Labels))
		g.Serial, g.ChassisSerial, g.ChassisSlot, g.TrayIndex = l.Get("serial"), l.Get("chassis_serial"), l.Get("chassis_slot"), l.Get("tray_index")
		g.PCIBusID, g.Model, g.SystemUUID = l.Get("pci_bus_id"), l.Get("model"), l.Get("system_uuid")
		first, last := time.UnixMilli(s.Samples[0].Time).UTC(), time.UnixMilli(s.Samples[len(s.Samples)-1].Time).UTC()
		if g.Scrapes == 0 || first.Before(g.First) {
			g.First = first
		}
		g.Last = last
		g.Scrapes += int64(len(s.Samples))
	}
}

// close adds the energy without an owner, and sorts the rows. If one board is refused, it removes the energy and times
// of all boards.
func (r *rows) close(h *table.Hour) error {
	charged := make(map[gpuKey]int64)
	for k, c := range r.charges {
		charged[k.gpuKey] += c.Energy
	}
	for k, g := range r.gpus {
		rest := g.Energy - charged[k]
		switch {
		case r.refused[k] != nil:
		case rest < 0:
			r.refused[k] = &BoardError{k.node, k.uuid, g.Serial, fmt.Errorf("%d mJ are charged, but the board used %d mJ: %w", charged[k], g.Energy, ErrOvercharged)}
		case rest > 0:
			r.charge(chargeKey{gpuKey: k, reason: Unrecorded}).Energy += rest
		}
	}
	all := new(table.Hour)
	for _, g := range r.gpus {
		all.GPUs = append(all.GPUs, *g)
	}
	for k, c := range r.charges {
		if c.Profiled == nil || *c.Profiled == 0 {
			c.Profiled, c.TensorActive, c.DRAMActive = nil, nil, nil
		}
		if c.IsZero() && (r.refused[k.gpuKey] == nil || k.reason != "") {
			continue
		}
		c.Serial = r.at(gpuKey{c.Node, c.UUID}).Serial
		all.Charges = append(all.Charges, *c)
	}
	h.Join(all)
	if len(r.refused) > 0 {
		h.Refuse()
		return newBoardErrors(maps.Values(r.refused))
	}
	return nil
}
