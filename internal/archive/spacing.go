package archive

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

const (
	// If the distance between samples is at most dense milliseconds, the samples are certainly raw.
	dense = 3 * 60_000
	// grid is the finest resolution of downsampled data, in milliseconds. In data that Thanos downsampled, the
	// timestamp of a sample is the last millisecond of its window. The coarser resolution is a multiple of grid.
	grid = 5 * 60_000
)

type spacing struct {
	samples, onGrid int      // number of samples in all series, and number of samples at the end of a window
	most            []int64  // times of the samples in the series with the most samples
	sparse          []sparse // series whose median distance is above dense
	gridded         bool     // a series has the timestamps of downsampled data
}

// sparse describes a series whose median distance between samples is above dense.
type sparse struct {
	first, last int64
	samples     int
}

// A scrape can by chance be in the last millisecond of a window. A sample therefore counts as downsampled only if it is
// also far from the previous sample.
func (s *spacing) add(series fold.Series) {
	var distances []int64
	far, onGrid := 0, 0
	for i, x := range series.Samples {
		if i > 0 {
			distances = append(distances, x.Time-series.Samples[i-1].Time)
			if distances[i-1] <= dense {
				continue
			}
		}
		far++
		if x.Time%grid == grid-1 {
			onGrid++
		}
	}
	s.samples += len(series.Samples)
	s.onGrid += onGrid
	s.gridded = s.gridded || onGrid > 1 && 2*onGrid >= far
	if len(series.Samples) > len(s.most) {
		s.most = s.most[:0]
		for _, x := range series.Samples {
			s.most = append(s.most, x.Time)
		}
	}
	if len(distances) < 2 {
		return
	}
	slices.Sort(distances)
	if distances[len(distances)/2] > dense {
		s.sparse = append(s.sparse, sparse{series.Samples[0].Time, series.Samples[len(series.Samples)-1].Time, len(series.Samples)})
	}
}

// thinned reports whether the store omits samples regularly. One sign is that samples have the timestamps of
// downsampled data. The other sign is a series with at most half as many samples as another series or as the successful
// scrapes of its target, in the same time.
func (s *spacing) thinned(scrapes [][]int64) bool {
	if s.gridded || 2*s.onGrid > s.samples {
		return true
	}
	return slices.ContainsFunc(s.sparse, func(x sparse) bool {
		return x.half(s.most) || slices.ContainsFunc(scrapes, x.half)
	})
}

// half reports whether the series has at most half as many samples as the given times in its range.
func (x sparse) half(times []int64) bool {
	n := 0
	for _, at := range times {
		if at >= x.first && at <= x.last {
			n++
		}
	}
	return n+1 >= 2*x.samples
}
