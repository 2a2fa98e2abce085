package amd

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A reader reads one GPU. It is used only in the GPU's lane. The source sets nodes, platforms and
// files while the lane is idle.
type reader struct {
	cfg       Config
	card      card
	nodes     []node
	platforms map[string]string
	// files contains the open files of the GPU's device nodes in all processes. It is empty unless DRM clients are
	// read. clients contains the clients in the last reading, by id.
	files   []clientFile
	clients map[string]client
	// former is the reader of the previous GPU in the slot, until the new GPU is identified.
	former *reader

	device gpu.Device
	again  time.Duration // boot-clock time at which the identity is read again
	hwmon  string        // folder of hwmon, or empty if it is unknown
	scope  gpu.EnergyScope
	meter  meter
	last   sums // sums at the last reading
	// summed is set if gpu_metrics contains sums of activity. moment is nil if the use of the GPU was not read since
	// the last reading.
	summed bool
	moment *moment
	// ras contains the error counts at the last identification. errors contains an errorCount for each count.
	ras    []gpu.RASErrors
	errors map[rasKey]*errorCount
	// health and counters are from the last identification. The slices are replaced and never modified.
	health   []gpu.HealthValue
	counters []gpu.Counter
	limited  limitMeter
	logged   map[string]bool
}

// identityAge is the time after which the identity is read again. A part of the identity may have been unreadable, and
// power limits can change. Error counts are not read at each tick, because reading them queries registers of the GPU.
const identityAge = 10 * time.Second

func (r *reader) look() look {
	now := r.cfg.Now().Boot
	l := look{reader: r, began: now}
	due := r.device.UUID == "" || now >= r.again
	if due {
		if l.err = r.identify(); l.err != nil && r.device.UUID == "" {
			return l
		}
		r.ras, r.health, r.counters = r.readRAS(), nil, nil
		r.again = now + identityAge
	}
	l.reading, l.err = r.read(due && r.cfg.Health)
	l.device, l.summed = r.device, r.summed
	return l
}

// read returns an error if neither gpu_metrics nor hwmon could be read.
func (r *reader) read(health bool) (*gpu.Reading, error) {
	out := &gpu.Reading{UUID: r.device.UUID, RASErrors: r.ras}
	began := r.cfg.Now()
	m, metricsErr := r.readMetrics()
	out.At = r.cfg.Now()
	out.Took = out.At.Sub(began)
	h, hwmonErr := r.readHwmon(m)
	if metricsErr != nil && hwmonErr != nil {
		return nil, fmt.Errorf("GPU cannot be read: %w", errors.Join(metricsErr, hwmonErr))
	}
	r.limited.add(m, out.At)
	if health {
		r.health, r.counters = r.readHealth(), r.memoryCounters()
	}
	out.Health, out.Counters, out.Throttled = r.health, r.counters, r.limited.throttled()
	r.readGauges(out, m, h)
	r.readEnergy(out, m, metricsErr == nil || errors.Is(metricsErr, errUnknown))
	r.device.Partitions = partitioning(readText(r.card.folder, "current_compute_partition"), r.card.address, r.nodes, r.platforms)
	r.readPartitions(&m)
	occupied := r.readContexts(out)
	uses := r.readClients()
	r.addClients(out, uses)
	now := sumsOf(m, out.At)
	r.readActivity(out, now, occupied, uses)
	r.last = now
	return out, nil
}

func (r *reader) readMetrics() (metrics, error) {
	file, err := readFile(r.card.folder, "gpu_metrics")
	if err != nil {
		return metrics{}, err
	}
	m, err := decode(file)
	if errors.Is(err, errUnknown) {
		r.logOnce("ignoring gpu_metrics, reading hwmon instead", err)
	}
	return m, err
}

func (r *reader) logOnce(problem string, err error) {
	if r.logged[problem] {
		return
	}
	if r.logged == nil {
		r.logged = make(map[string]bool)
	}
	r.logged[problem] = true
	r.cfg.Log.Warn("cannot read some values of the GPU", "gpu", r.device.UUID, "problem", problem, "err", err)
}

// Some firmware reports only the temperature of the hottest spot and no edge temperature.
func (r *reader) readGauges(out *gpu.Reading, m metrics, h hwmon) {
	set := func(g gpu.Gauge, v value, units float64) {
		if v.ok {
			out.Gauges[g] = new(float64(v.n) / units)
		}
	}
	set(gpu.Power, h.power, 1e6)
	set(gpu.Power, m.power, 1)
	set(gpu.Temperature, h.temperature, 1e3)
	set(gpu.Temperature, first(m.edge, m.hotspot), 1)
	set(gpu.SMClock, first(m.clock.hertz(), h.clock), 1)
	set(gpu.MemoryClock, first(m.memory.hertz(), h.memoryClock), 1)
	set(gpu.MemoryUsed, r.number("mem_info_vram_used"), 1)
	set(gpu.MemoryTotal, r.number("mem_info_vram_total"), 1)
	busy := m.activity
	if !busy.ok {
		busy = r.number("gpu_busy_percent")
		busy.ok = busy.ok && busy.n <= 100
	}
	set(gpu.Utilization, busy, 100)
	if h.limit.ok {
		out.PowerLimit = new(gpu.Watts(float64(h.limit.n) / 1e6))
	}
}

func (v value) hertz() value { return value{v.n * 1e6, v.ok} }

func first(values ...value) value {
	for _, v := range values {
		if v.ok {
			return v
		}
	}
	return value{}
}

func (r *reader) number(name string) value {
	n, err := readNumber(r.card.folder, name)
	return value{n, err == nil}
}

func (r *reader) readEnergy(out *gpu.Reading, m metrics, definite bool) {
	power := -1.0
	if p := out.Gauges[gpu.Power]; p != nil {
		power = *p
	}
	out.Energy, out.PowerSum = r.meter.read(m.energy, power, definite, out.At, r.cfg.Tick)
	r.device.EnergySource, r.device.EnergyScope = r.meter.kind, ""
	if r.meter.kind != gpu.EnergyNone {
		r.device.EnergyScope = r.scope
	}
}

// identify fails only if the unique id is missing or invalid. It does not change strings from the driver.
func (r *reader) identify() error {
	text := func(name string) string { return readText(r.card.folder, name) }
	uuid := text("unique_id")
	if gpu.Identity(uuid) == "" || len(uuid) > 64 {
		return fmt.Errorf("identify GPU: unique_id is %q", uuid)
	}
	if old := r.former; old != nil && old.device.UUID == uuid {
		r.meter, r.last, r.device, r.errors, r.limited = old.meter, old.last, old.device, old.errors, old.limited
	}
	r.former = nil
	if r.device.UUID != "" && r.device.UUID != uuid { // another GPU is at the address
		*r = reader{cfg: r.cfg, card: r.card, nodes: r.nodes, platforms: r.platforms}
	}
	d := &r.device
	d.UUID, d.Index, d.Vendor, d.PCIBusID = uuid, r.card.number, Vendor, busID(r.card.address)
	model := text("device")
	d.Model, r.scope = cmp.Or(text("product_name"), models[model]), scopeOf(model)
	d.Serial, d.BoardPartNumber, d.VBIOSVersion = text("serial_number"), text("product_number"), text("vbios_version")
	minor := renderMinor(r.card.folder)
	if minor == "" && len(r.nodes) > 0 {
		minor = r.nodes[0].minor
	}
	d.DeviceNode = fmt.Sprintf("dri/card%d", r.card.number)
	if minor != "" {
		d.DeviceNode = "dri/renderD" + minor
	}
	r.findHwmon()
	d.MaxPower = r.maxPower()
	d.Fabric = r.hive()
	return nil
}

// hive returns the GPU's XGMI hive as a fabric, because all GPUs in a hive are connected.
func (r *reader) hive() *gpu.Fabric {
	id := r.number("xgmi_hive_info/xgmi_hive_id")
	if !id.ok || id.n == 0 || id.n == math.MaxUint64 {
		return nil
	}
	return &gpu.Fabric{ClusterUUID: fmt.Sprintf("%016x", id.n), State: "completed"}
}

func busID(address string) string {
	domain, rest, _ := strings.Cut(address, ":")
	return strings.ToUpper(strings.Repeat("0", max(0, 8-len(domain))) + domain + ":" + rest)
}
