package dcgm

import (
	"slices"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// read takes a report from what the engine has read lately.
func (d *session) read() (gpu.Report, error) {
	if err := d.renew(); err != nil {
		return gpu.Report{}, err
	}
	vs, err := d.latest(d.gpus, readingFields)
	if err != nil {
		return gpu.Report{}, err
	}
	if err := d.divide(vs); err != nil {
		return gpu.Report{}, err
	}
	fields, err := d.readPage()
	if gone(err) {
		return gpu.Report{}, err
	}
	report := gpu.Report{Driver: d.driver, Fields: fields}
	for _, g := range d.gpus {
		b := d.boards[g]
		reading, fresh, blank := d.reading(g, vs)
		if b.device.UUID == "" || (blank || !fresh) && d.missing(g) {
			continue
		}
		b.device.XIDEvents = d.tellXIDs(&report, g, vs)
		report.Devices = append(report.Devices, b.device)
		if fresh {
			report.Readings = append(report.Readings, reading)
		}
	}
	d.measure(&report)
	return report, nil
}

// missing asks whether the engine has lost a GPU.
func (d *session) missing(g entity) (missing bool) {
	_ = d.engine.do("dcgmGetGpuStatus", func() error {
		switch godcgm.GetGPUStatus(g.EntityId) {
		case godcgm.EntityStatusLost, godcgm.EntityStatusDetached, godcgm.EntityStatusInaccessible:
			missing = true
		}
		return nil
	})
	return missing
}

// reading makes a reading of the values of a GPU. It is fresh if any of them was read
// lately: an engine that hangs on a GPU keeps on giving what it read before. It is blank
// if none of them is a value, as of a GPU that is lost.
func (d *session) reading(g entity, vs values) (r gpu.Reading, fresh, blank bool) {
	b, now := d.boards[g], d.cfg.Now()
	of := func(f field) value { return vs[key{g, f}] }
	r = gpu.Reading{UUID: b.device.UUID, At: now}
	number := func(to **float64, unit float64, f field) {
		n, ok := of(f).number()
		assign(to, func(n float64) *float64 { return new(n * unit) }, n, ok && n >= 0)
	}
	percent := func(to **float64, f field) {
		n, ok := of(f).number()
		assign(to, func(n float64) *float64 { return new(n / 100) }, n, ok && n >= 0 && n <= 100)
	}
	bytes := func(to **uint64, f field) {
		n, ok := of(f).count()
		assign(to, func(n int64) *uint64 { return new(uint64(n) << 20) }, n, ok)
	}
	watts := func(to **gpu.Watts, f field) {
		n, ok := of(f).number()
		assign(to, func(n float64) *gpu.Watts { return new(gpu.Watts(n)) }, n, ok && n >= 0)
	}
	watts(&r.Power, godcgm.DCGM_FI_DEV_BOARD_POWER_WATTS)
	watts(&r.PowerLimit, godcgm.DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS)
	number(&r.Temperature, 1, godcgm.DCGM_FI_DEV_GPU_TEMP_CELSIUS)
	percent(&r.Utilization, godcgm.DCGM_FI_DEV_GPU_UTIL_RATIO)
	number(&r.SMClock, 1e6, godcgm.DCGM_FI_DEV_SM_CLOCK)
	number(&r.MemoryClock, 1e6, godcgm.DCGM_FI_DEV_MEM_CLOCK)
	bytes(&r.MemoryUsed, godcgm.DCGM_FI_DEV_FB_USED)
	bytes(&r.MemoryTotal, godcgm.DCGM_FI_DEV_FB_TOTAL)
	pending, known := of(godcgm.DCGM_FI_DEV_ROW_REMAP_PENDING).integer()
	if failed, ok := of(godcgm.DCGM_FI_DEV_ROW_REMAP_FAILED).integer(); ok && known {
		r.RowRemap = &gpu.RowRemap{Pending: pending != 0, Failed: failed != 0}
	}
	d.readEnergy(g, &r, vs, now)
	blank = true
	for _, f := range slices.Concat(energyFields, gaugeFields) {
		v := of(f)
		_, ok := v.number()
		blank = blank && !ok
		at := d.moments.of(key{g, f}, v, now) // of every value, or it would count as first seen later
		fresh = fresh || v.status == 0 && at.Boot >= now.Boot-d.stale()
	}
	return r, fresh, blank
}

// stale is the age from which on a value is of no use. The engine may be late by an
// update or two.
func (d *session) stale() time.Duration { return max(3*time.Second, 3*d.cfg.Tick) }

// readEnergy takes over the board's counter, and the time at which the engine read it.
// DCGM does not say what else than the GPU the counter covers.
func (d *session) readEnergy(g entity, r *gpu.Reading, vs values, now gpu.Instant) {
	k := key{g, godcgm.DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION}
	mj, ok := vs[k].count()
	at := d.moments.of(k, vs[k], now)
	if !ok || at.Boot < now.Boot-d.stale() {
		return
	}
	b := d.boards[g]
	b.device.EnergySource, b.device.EnergyScope = gpu.EnergyCounter, gpu.ScopeUnknown
	r.Energy, r.At = new(gpu.Millijoules(mj)), at
}

// moments remember the values that the engine dates after now, and when each was first
// seen, which is when it was read as far as can be told. The engine keeps values in the
// order of their times: once the wall clock was set back, its newest one is that of before
// until the clock comes there again.
type moments map[key]glimpse

type glimpse struct {
	us    int64 // µs of the wall clock, as the engine says
	first gpu.Instant
}

// of returns when the engine read a value.
func (m moments) of(k key, v value, now gpu.Instant) gpu.Instant {
	if !time.UnixMicro(v.at).After(now.Wall) {
		delete(m, k)
		return moment(now, v.at)
	}
	if m[k].us != v.at {
		m[k] = glimpse{v.at, now}
	}
	return m[k].first
}

// moment returns when the engine read a value, which was not after now: clocks may
// have been set since.
func moment(now gpu.Instant, us int64) gpu.Instant {
	age := max(0, now.Wall.Sub(time.UnixMicro(us)))
	return gpu.Instant{Wall: now.Wall.Add(-age), Boot: now.Boot - age}
}
