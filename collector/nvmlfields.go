package collector

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A FieldSelection contains the fields of a field page whose values come from NVML, in the order of the page.
type FieldSelection struct {
	Metrics []gpu.PageField
	Labels  []string

	values []fieldValue // values of the fields in Metrics
	texts  []fieldText  // values of the fields in Labels
}

// DefaultSelection returns the fields in dcgm-exporter's default-counters.csv that NVML provides.
func DefaultSelection() (s FieldSelection) {
	for _, f := range DCGMFields {
		if f.Default {
			s.Add(f.Name, f.Help, f.Type)
		}
	}
	return s
}

// Add adds a field and reports whether NVML provides the field.
func (c *FieldSelection) Add(name, help string, kind FieldType) bool {
	i := slices.IndexFunc(DCGMFields, func(f DCGMField) bool { return f.Name == name })
	if i < 0 {
		return false
	}
	switch f := &DCGMFields[i]; {
	case kind == FieldLabel && f.text != nil:
		c.Labels, c.texts = append(c.Labels, name), append(c.texts, f.text)
	case kind != FieldLabel && f.value != nil:
		c.Metrics, c.values = append(c.Metrics, gpu.PageField{Name: name, Help: help, Counter: kind == FieldCounter}), append(c.values, f.value)
	default:
		return false
	}
	return true
}

// Needing returns the selected fields that have values only if the given flag is set.
func (c FieldSelection) Needing(flag string) (names []string) {
	for _, f := range DCGMFields {
		named := func(m gpu.PageField) bool { return m.Name == f.Name }
		if f.Flag == flag && (slices.Contains(c.Labels, f.Name) || slices.ContainsFunc(c.Metrics, named)) {
			names = append(names, f.Name)
		}
	}
	return names
}

// NewNVMLFields returns a collector for the field page with the NVML values in the snapshot.
func NewNVMLFields(latest func() *gpu.Snapshot, hostname string, selected FieldSelection) *Fields {
	type made struct {
		of   *gpu.Snapshot
		page *gpu.FieldPage
	}
	var last atomic.Pointer[made] // several scrapes of the same snapshot must return the same page
	page := func(s *gpu.Snapshot) *gpu.FieldPage {
		m := last.Load()
		if m == nil || m.of != s {
			m = &made{s, selected.page(s)}
			last.Store(m)
		}
		return m.page
	}
	return &Fields{latest: latest, hostname: hostname, page: page}
}

const nvidia = "NVIDIA"

func (c FieldSelection) page(s *gpu.Snapshot) *gpu.FieldPage {
	page := &gpu.FieldPage{Fields: c.Metrics, Labels: c.Labels}
	var driver gpu.Driver
	if i := slices.IndexFunc(s.Drivers, func(d gpu.Driver) bool { return d.Vendor == nvidia }); i >= 0 {
		driver = s.Drivers[i]
	}
	for i := range s.GPUs {
		g := &s.GPUs[i]
		if g.Vendor != nvidia {
			continue
		}
		row := gpu.FieldRow{UUID: g.UUID}
		for _, value := range c.values {
			row.Values = append(row.Values, value.of(g))
		}
		for _, text := range c.texts {
			row.Labels = append(row.Labels, text(driver, g))
		}
		page.Rows = append(page.Rows, row)
	}
	return page
}

// A fieldValue is a function that returns the value of a field for a GPU, in DCGM's unit. It also reports whether the
// value is known.
type fieldValue func(*gpu.GPU) (float64, bool)

type fieldText func(gpu.Driver, *gpu.GPU) string

func (f fieldValue) of(g *gpu.GPU) *float64 {
	v, ok := f(g)
	if !ok {
		return nil
	}
	return &v
}

func ofReading(value func(*gpu.Reading) (float64, bool)) fieldValue {
	return func(g *gpu.GPU) (float64, bool) {
		if g.Reading == nil {
			return 0, false
		}
		return value(g.Reading)
	}
}

// The argument units is the factor from the base unit of the gauge to DCGM's unit.
func gaugeIn(gauge gpu.Gauge, units float64) fieldValue {
	return ofReading(func(r *gpu.Reading) (float64, bool) {
		v := r.Gauges[gauge]
		if v == nil {
			return 0, false
		}
		return rounded(*v * units), true
	})
}

// The argument units is the factor from the base unit of the value to DCGM's unit.
func healthIn(m gpu.HealthMetric, units float64, labels ...string) fieldValue {
	return ofReading(func(r *gpu.Reading) (float64, bool) {
		for _, v := range r.Health {
			if v.Metric == m && slices.Equal(v.Labels, labels) {
				return rounded(v.Value * units), true
			}
		}
		return 0, false
	})
}

func firmwareVersion(part string) fieldText {
	return func(_ gpu.Driver, g *gpu.GPU) string {
		if g.Reading == nil {
			return ""
		}
		for _, v := range g.Reading.Details {
			if v.Metric == gpu.FirmwareVersions && v.Labels[0] == part {
				return v.Labels[1]
			}
		}
		return ""
	}
}

// rounded removes the rounding error of a unit conversion. The driver's values are multiples of a thousandth of DCGM's
// unit, so rounding to thousandths is exact.
func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }

// mebibyte is the number of bytes in DCGM's unit of memory. DCGM truncates values to whole units.
const mebibyte = 1 << 20

func memoryFree(r *gpu.Reading) (float64, bool) {
	used, total := r.Gauges[gpu.MemoryUsed], r.Gauges[gpu.MemoryTotal]
	if used == nil || total == nil {
		return 0, false
	}
	free := *total - *used
	if reserved := r.Gauges[gpu.MemoryReserved]; reserved != nil {
		free -= *reserved
	}
	return math.Trunc(max(free, 0) / mebibyte), true
}

func memoryGauge(m gpu.Gauge) fieldValue {
	return ofReading(func(r *gpu.Reading) (float64, bool) {
		if r.Gauges[m] == nil {
			return 0, false
		}
		return math.Trunc(*r.Gauges[m] / mebibyte), true
	})
}

// energyCounter returns the energy of a GPU if the GPU has its own counter. For other GPUs it returns no energy,
// because DCGM reports none.
func energyCounter(g *gpu.GPU) (float64, bool) {
	if g.Reading == nil || g.Reading.Energy == nil || g.EnergySource != gpu.EnergyCounter {
		return 0, false
	}
	return float64(*g.Reading.Energy), true
}

func lastXID(g *gpu.GPU) (float64, bool) {
	var last uint64
	var at time.Time
	for code, t := range g.Events.Last {
		if t.After(at) || t.Equal(at) && code > last {
			last, at = code, t
		}
	}
	return float64(last), g.ReportsEvents || last != 0
}

// nvlinkRate returns the rate in DCGM's unit, 1000 KiB per second, as a whole number.
func nvlinkRate(r *gpu.Reading) (float64, bool) {
	if r.NVLinkRate == nil {
		return 0, false
	}
	return math.Trunc(*r.NVLinkRate / 1024 / 1000), true
}

// profileIn returns a fieldValue for a value from the last interval of the profile. Rates are truncated to whole bytes
// per second, as in DCGM.
func profileIn(m gpu.ProfileMetric) fieldValue {
	return ofReading(func(r *gpu.Reading) (float64, bool) {
		switch {
		case r.Profile == nil || r.Profile.Last[m] == nil:
			return 0, false
		case m >= gpu.NumActivities:
			return math.Trunc(*r.Profile.Last[m]), true
		}
		return *r.Profile.Last[m], true
	})
}

func remapped(value func(*gpu.RowRemap) float64) fieldValue {
	return ofReading(func(r *gpu.Reading) (float64, bool) {
		if r.RowRemap == nil {
			return 0, false
		}
		return value(r.RowRemap), true
	})
}
