package nvml

import (
	"encoding/binary"
	"math"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A meter describes how the energy of a GPU is read. A counter is chosen once per session, because a change to another
// counter would look like a jump of the energy. The power is always integrated as well. If a counter fails at first and
// works later, the ledger can continue from the integral.
type meter struct {
	kind  meterKind
	tries int // readings without a counter
	// failed is set if a counter failed although the driver may support it.
	failed bool
}

type meterKind int

const (
	undecided meterKind = iota
	fieldCounter
	boardCounter
	powerIntegral
	noMeter
)

// maxTries is the number of readings after which a failing counter is replaced by the next choice. A counter that the
// driver does not support is replaced at once.
const maxTries = 3

// retryAfter is the number of readings after which a failed counter is tried again.
const retryAfter = 10

func (g *gpuReader) readEnergy(q *inquiry, r *gpu.Reading) {
	mw, powerErr := query(q, "nvmlDeviceGetPowerUsage", func() (uint32, ret) { return available(g.handle.GetPowerUsage()) })
	if powerErr == nil {
		r.Gauges[gpu.Power] = new(float64(watts(mw)))
	}
	switch {
	case g.meter.kind == undecided:
		g.choose(q, powerErr)
	case g.meter.kind == powerIntegral && g.meter.failed:
		if g.meter.tries++; g.meter.tries%retryAfter == 0 {
			g.chooseCounter(q)
		}
	}
	energy, err := gpu.Millijoules(0), powerErr
	began := g.now()
	switch g.meter.kind {
	case fieldCounter:
		energy, err = g.energyField(q, gonvml.POWER_SCOPE_GPU)
	case boardCounter:
		energy, err = g.energyCounter(q)
	}
	r.At = g.now()
	r.Took = r.At.Sub(began)
	if g.device.EnergyScope == gpu.ScopeModule {
		r.ModulePower = g.modulePower(q)
	}
	if powerErr == nil {
		r.PowerSum = new(g.integral.Add(mw, r.At.Boot, g.tick))
	}
	if g.meter.kind == powerIntegral && err == nil {
		energy = *r.PowerSum
	}
	if err == nil && g.meter.kind != undecided && g.meter.kind != noMeter {
		r.Energy = &energy
	}
}

// Pascal and older GPUs, and some virtual GPUs, report only power.
func (g *gpuReader) choose(q *inquiry, powerErr error) {
	g.meter.tries++
	if g.chooseCounter(q) {
		return
	}
	if !g.settle(powerErr, powerIntegral, gpu.EnergyPower, gpu.ScopeUnknown) {
		g.settle(nil, noMeter, gpu.EnergyNone, "")
	}
}

// chooseCounter prefers field 191 (NVML_FI_DEV_ENERGY) with the GPU's scope, because only this field is known to
// exclude other hardware. The older counter (nvmlDeviceGetTotalEnergyConsumption) has no scope. On GH200 and GB200
// boards it covers the whole module, including the CPU or the second die. It is treated as the module's counter only if
// field 191 works for the module but not for the GPU. For the result, see [gpuReader.settle].
func (g *gpuReader) chooseCounter(q *inquiry) bool {
	g.meter.failed = false
	_, err := g.energyField(q, gonvml.POWER_SCOPE_GPU)
	if g.settle(err, fieldCounter, gpu.EnergyCounter, gpu.ScopeGPU) {
		return true
	}
	_, err = g.energyCounter(q)
	scope := gpu.ScopeUnknown
	if _, moduleErr := g.energyField(q, gonvml.POWER_SCOPE_MODULE); moduleErr == nil {
		scope = gpu.ScopeModule
	}
	return g.settle(err, boardCounter, gpu.EnergyCounter, scope)
}

// settle chooses a kind of meter if err is nil. It returns true if no other kind should be tried at this reading. The
// search ends when a kind was chosen, or when a kind failed although the driver may support it. A failed kind is tried
// again later.
func (g *gpuReader) settle(err error, kind meterKind, source gpu.EnergySource, scope gpu.EnergyScope) bool {
	if err != nil {
		failed := !unsupported(err)
		g.meter.failed = g.meter.failed || failed
		return failed && g.meter.tries < maxTries
	}
	g.meter.kind = kind
	g.device.EnergySource, g.device.EnergyScope = source, scope
	return true
}

func (g *gpuReader) energyCounter(q *inquiry) (gpu.Millijoules, error) {
	return query(q, "nvmlDeviceGetTotalEnergyConsumption", func() (gpu.Millijoules, ret) {
		n, r := available64(g.handle.GetTotalEnergyConsumption())
		return gpu.Millijoules(n), r
	})
}

func (g *gpuReader) energyField(q *inquiry, scope uint32) (gpu.Millijoules, error) {
	n, err := g.field(q, gonvml.FI_DEV_ENERGY, scope)
	return gpu.Millijoules(n), err
}

func (g *gpuReader) field(q *inquiry, id, scope uint32) (uint64, error) {
	return query(q, "nvmlDeviceGetFieldValues", func() (uint64, ret) {
		value := []gonvml.FieldValue{{
			FieldId: id, ScopeId: scope,
			NvmlReturn: uint32(gonvml.ERROR_NOT_SUPPORTED), // a driver may leave unsupported fields unchanged
		}}
		if r := g.handle.GetFieldValues(value); r != gonvml.SUCCESS {
			return 0, r
		}
		if r := ret(value[0].NvmlReturn); r != gonvml.SUCCESS {
			return 0, r
		}
		return available64(fieldInteger(value[0]))
	})
}

func (g *gpuReader) modulePower(q *inquiry) gpu.ModulePower {
	power := func(scope uint32) gpu.Watts {
		mw, err := g.field(q, gonvml.FI_DEV_POWER_AVERAGE, scope)
		if err != nil || mw > gpu.MaxMilliwatts {
			return 0
		}
		return gpu.Watts(mw) / 1000
	}
	return gpu.ModulePower{GPU: power(gonvml.POWER_SCOPE_GPU), Module: power(gonvml.POWER_SCOPE_MODULE)}
}

// available64 rejects a value with all bits set, which means that the value is not available.
func available64(n uint64, r ret) (uint64, ret) {
	if r == gonvml.SUCCESS && n > math.MaxInt64 {
		return 0, gonvml.ERROR_NO_DATA
	}
	return n, r
}

func fieldInteger(f gonvml.FieldValue) (uint64, ret) {
	bits := binary.NativeEndian.Uint64(f.Value[:])
	switch gonvml.ValueType(f.ValueType) {
	case gonvml.VALUE_TYPE_UNSIGNED_LONG, gonvml.VALUE_TYPE_UNSIGNED_LONG_LONG, gonvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return bits, gonvml.SUCCESS
	case gonvml.VALUE_TYPE_UNSIGNED_INT:
		return uint64(binary.NativeEndian.Uint32(f.Value[:])), gonvml.SUCCESS
	case gonvml.VALUE_TYPE_DOUBLE:
		if v := math.Float64frombits(bits); v >= 0 && v < math.MaxInt64 {
			return uint64(v), gonvml.SUCCESS
		}
	}
	return 0, gonvml.ERROR_NO_DATA
}
