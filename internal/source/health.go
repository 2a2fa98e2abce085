package source

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// MaxLate is the maximum age of a late reading, counted from the start of the reading. An older reading is dropped,
// because it would combine an old energy value with current processes. A GPU whose readings take up to two seconds is
// read at least at every second tick.
const MaxLate = 2500 * time.Millisecond

// Latest returns the newer of two readings of a GPU. The result also contains the samples of the older reading. One of
// the readings may be nil.
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

// Health is the last logged state of a GPU. The zero value means that the GPU has no reading yet.
type Health int

// Possible values of Health.
const (
	silent  Health = iota // the GPU has no reading yet
	Well                  // the GPU responds
	Late                  // a call for the GPU timed out and has not returned yet
	Missing               // the GPU is lost, or was never identified
	Failing               // the GPU cannot be read
)

// Log stores the current health. If the health has changed, Log logs it with the reason.
func (h *Health) Log(log *slog.Logger, now Health, err error) {
	before := *h
	*h = now
	switch now {
	case Late:
		log.Warn("GPU call timed out, the GPU is quarantined until the call returns")
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
