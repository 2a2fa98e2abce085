package archive

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

const (
	// dense is the largest distance, in milliseconds, at which samples are certainly raw.
	dense = 3 * 60_000
	// grid is the finest resolution of downsampled data, in milliseconds. If Thanos downsampled the data, the timestamp
	// of a sample is the last millisecond of its window. Windows of the coarser resolution end together with some of
	// these windows.
	grid = 5 * 60_000
)

// spacing contains the distances between the samples of a node.
type spacing struct {
	samples, onGrid int      // samples in all series, and samples at the end of a window
	most            []int64  // times of the samples in the series with the most samples
	sparse          []sparse // series with distances above dense
	gridded         bool     // a series has the timestamps of downsampled data
}

// sparse describes a series with long distances between samples.
type sparse struct {
	first, last int64
	samples     int
}

// add adds a series. Raw scrapes can also be at the last millisecond of a window, by chance. All series of the target
// then have this phase. A sample therefore counts as downsampled only if it is far from the previous one.
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

// thinned reports whether samples are missing regularly. One sign is timestamps as in downsampled data. The other sign
// is a series with at most half as many samples as another series in the same time, or as its target has successful
// scrapes.
func (s *spacing) thinned(scrapes [][]int64) bool {
	if s.gridded || 2*s.onGrid > s.samples {
		return true
	}
	return slices.ContainsFunc(s.sparse, func(x sparse) bool {
		return x.half(s.most) || slices.ContainsFunc(scrapes, x.half)
	})
}

// half reports whether a series has samples for at most half of the given times. Only times between its first and its
// last sample count.
func (x sparse) half(times []int64) bool {
	n := 0
	for _, at := range times {
		if at >= x.first && at <= x.last {
			n++
		}
	}
	return n+1 >= 2*x.samples
}
