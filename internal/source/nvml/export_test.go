package nvml

import (
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/source/nvml/quiet"
)

// QuietTimes measures the idle power without a driver.
type QuietTimes struct{ quietTimes }

// Measure adds power samples in watts and utilisation samples from 0 to 1. The keys are times in µs.
func (t *QuietTimes) Measure(power, busy map[int64]float64, maxPower gpu.Watts) gpu.Watts {
	return gpu.Watts(t.Times.Measure(pointsOf(power), pointsOf(busy), float64(maxPower)))
}

func pointsOf(values map[int64]float64) (points []quiet.Point) {
	for at, value := range values {
		points = append(points, quiet.Point{At: at, Value: value})
	}
	return quiet.InOrder(points)
}
