package source

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// MaxLate is the maximum age of a late reading, counted from its start. A GPU that always takes up
// to two seconds is therefore read at every tick or at every second tick. The result of a slower
// reading would combine old energy with current processes.
const MaxLate = 2500 * time.Millisecond

// Latest returns the newer of two readings of a GPU, with the samples of both. One of the readings
// may be nil.
func Latest(old, young *gpu.Reading) *gpu.Reading {
	if old == nil || young == nil {
		return cmp.Or(young, old)
	}
	young.Samples = append(old.Samples, young.Samples...)
	if old.SamplesKnown && young.SamplesKnown {
		young.Sampled.From = old.Sampled.From
	}
	young.Instances = append(old.Instances, young.Instances...)
	return young
}

// Health is the last logged health of a GPU. The zero value means that the GPU has no reading.
type Health int

// These are the states of the health of a GPU.
const (
	silent  Health = iota // nothing yet
	Well                  // it responds
	Late                  // the GPU is quarantined
	Missing               // the GPU is lost, or was never identified
	Failing               // the GPU cannot be read
)

// Log stores and logs a new health, with its reason.
func (h *Health) Log(log *slog.Logger, now Health, err error) {
	before := *h
	*h = now
	switch now {
	case Late:
		log.Warn("GPU call timed out, quarantined until it returns")
	case Missing:
		log.Warn("GPU is missing, retrying", "err", err)
	case Failing:
		log.Warn("all calls on GPU fail, retrying", "err", err)
	case Well:
		if before != silent {
			log.Info("GPU recovered")
		}
	}
}
