package archive

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/store"
)

// refusal is the reason why the data of an hour may be incomplete. The hour is not filed.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// refused returns an error of the store as a refusal, if the store has incomplete data.
func refused(err error) error {
	if errors.Is(err, store.ErrIncomplete) {
		return &refusal{err}
	}
	return err
}

// The reasons of refusals, besides those of the packages fold and store.
var (
	errLagging     = errors.New("no samples after the hour: remote write lags, or the cluster is down")
	errDownsampled = errors.New("the samples are more than three minutes apart: query raw data")
	errSilent      = errors.New("check the store, or set --accept-gaps")
)

const (
	// maxLag is the maximum delay of samples. After that a cluster without later samples is gone.
	maxLag = 48 * time.Hour
	// maxInterval is the maximum interval of raw samples.
	maxInterval = 3 * time.Minute
	// maxSilent is the part of a cluster's nodes that may be silent.
	maxSilent = 0.05
)

// gates has the data that the checks need in addition to the record.
type gates struct {
	sampledAfter bool
	now          time.Time
	acceptGaps   bool
}

// check returns the silent nodes of an hour, and a refusal if its record may be incomplete.
func check(r *store.Record, g gates) (silent []string, err error) {
	switch {
	case !g.sampledAfter && g.now.Sub(r.Start) < maxLag:
		return nil, &refusal{errLagging}
	case interval(r.Series) > maxInterval:
		return nil, &refusal{errDownsampled}
	}
	silent = silentNodes(r)
	if tooSilent(silent, r) && !g.acceptGaps {
		return silent, &refusal{fmt.Errorf(
			"%d of %d nodes of the hour before have no samples, and no failed scrapes, such as %s: %w",
			len(silent), len(r.Before), strings.Join(silent[:min(3, len(silent))], ", "), errSilent)}
	}
	return silent, nil
}

// tooSilent reports whether so many nodes are silent that the store may be incomplete.
func tooSilent(silent []string, r *store.Record) bool {
	return len(silent) > 1 && float64(len(silent)) > maxSilent*float64(len(r.Before))
}

// interval returns the shortest interval between two samples of a series, 0 if no series has two.
func interval(series []fold.Series) time.Duration {
	shortest := int64(math.MaxInt64)
	for _, s := range series {
		for i := 1; i < len(s.Samples); i++ {
			shortest = min(shortest, s.Samples[i].Time-s.Samples[i-1].Time)
		}
	}
	if shortest == math.MaxInt64 {
		return 0
	}
	return time.Duration(shortest) * time.Millisecond
}

// silentNodes returns the nodes that had samples in the previous hour and have none in this hour,
// not even of a failed scrape.
func silentNodes(r *store.Record) []string {
	present := make(map[string]bool)
	for _, s := range slices.Concat(r.Series, r.Up) {
		present[s.Labels["node"]] = true
	}
	var silent []string
	for _, node := range r.Before {
		if !present[node] {
			silent = append(silent, node)
		}
	}
	slices.Sort(silent)
	return silent
}
