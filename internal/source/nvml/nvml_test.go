package nvml_test

import (
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

func TestContract(t *testing.T) {
	gputest.Run(t, func(t *testing.T, n gputest.Node, now gpu.Clock) (gputest.Source, func(gputest.Node)) {
		d := newDriver(t, n)
		return d.open(now), d.change
	})
}
