package ledger

import (
	"iter"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Explain limits the settled intervals that are kept for each GPU to explain charges. The saved
// state does not contain these intervals.
type Explain struct {
	// Period is the time for which intervals are kept, or 0 if none are kept.
	Period time.Duration
	// Bytes is the maximum memory of the intervals of one GPU.
	Bytes int
}

// A trail keeps the recent intervals of one GPU as encoded bytes. Encoded intervals need a quarter of the memory of
// structs, and the garbage collector does not scan them. A trail only appends to the newest segment and only drops
// whole segments. Therefore a copy of the slice of segments is an immutable view. A nil trail keeps nothing.
type trail struct {
	Explain
	segments []segment // oldest first
	encoder  *encoder  // of the newest segment
	scratch  []byte
	// now is the interval that is being charged.
	now gpu.Interval
}

// A segment can be decoded without the segments before it.
type segment struct {
	data []byte
	end  time.Duration // end of the newest interval in the segment, on the boot clock
}

const segments = 16

// newTrail returns nil if no intervals are kept.
func newTrail(e Explain) *trail {
	if e.Period <= 0 || e.Bytes <= 0 {
		return nil
	}
	return &trail{Explain: e}
}

func (t *trail) add(iv *gpu.Interval) {
	t.encode(iv)
	last := len(t.segments) - 1
	if last < 0 || len(t.segments[last].data)+len(t.scratch) > cap(t.segments[last].data) {
		t.encoder = newEncoder()
		t.encode(iv)
		t.segments = append(t.segments, segment{data: make([]byte, 0, max(t.Bytes/segments, len(t.scratch)))})
		last++
	}
	s := &t.segments[last]
	s.data, s.end = append(s.data, t.scratch...), iv.To.Boot
	for len(t.segments) > 0 && (t.size() > t.Bytes || t.segments[0].end <= iv.To.Boot-t.Period) {
		t.segments = slices.Delete(t.segments, 0, 1)
	}
}

func (t *trail) encode(iv *gpu.Interval) {
	if t.encoder == nil {
		t.encoder = newEncoder()
	}
	t.scratch = t.encoder.interval(t.scratch[:0], iv)
}

// size returns the memory in bytes.
func (t *trail) size() int {
	sum := cap(t.scratch) + t.encoder.size()
	for i := range t.segments {
		sum += cap(t.segments[i].data) + segmentBytes
	}
	return sum
}

// segmentBytes is the memory in bytes of two segment values, one in the trail and one in the published view. It does
// not include the encoded intervals.
const segmentBytes = 64

// view returns the intervals of the period, oldest first. The result does not include intervals that are added later.
// It is nil if the trail keeps no intervals.
func (t *trail) view() iter.Seq[gpu.Interval] {
	if t == nil {
		return nil
	}
	kept, period := slices.Clone(t.segments), t.Period
	return func(yield func(gpu.Interval) bool) {
		if len(kept) == 0 {
			return
		}
		from := kept[len(kept)-1].end - period
		for _, s := range kept {
			d := newDecoder(s.data)
			for len(d.data) > 0 {
				if iv := d.interval(); iv.To.Boot > from && !yield(iv) {
					return
				}
			}
		}
	}
}
