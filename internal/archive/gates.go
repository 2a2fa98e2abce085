package archive

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/store"
)

// refusal is the reason why the data of an hour may be incomplete. The hour is not filed.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// refused returns an error of the store as a refusal, if its data are incomplete or too large.
func refused(err error) error {
	if errors.Is(err, store.ErrIncomplete) || errors.Is(err, store.ErrTooLarge) {
		return &refusal{err}
	}
	return err
}

// errGone means that a cluster has no samples in an hour, and none after it: the hour is not filed.
var errGone = errors.New("the cluster has no samples in the hour and after it")

// The reasons of refusals, besides those of the packages fold and store.
var (
	errLagging     = errors.New("no samples after the hour: remote write lags, or the cluster is down")
	errDownsampled = errors.New("the samples are more than three minutes apart: query raw data")
	errSilent      = errors.New("check the store, or set --accept-gaps")
)

const (
	// maxLag is the maximum delay of samples. After that a cluster without later samples is gone.
	maxLag = 48 * time.Hour
	// maxInterval is the maximum interval of most raw samples. Failed scrapes make longer ones.
	maxInterval = 3 * time.Minute
	// maxSilent is the part of a cluster's nodes that may be silent.
	maxSilent = 0.05
)

// coverage is what shows whether the record of an hour is complete.
type coverage struct {
	start time.Time
	// nodes have samples. targets were scraped, successfully or not.
	nodes   map[string]bool
	targets []string
	// before are the nodes with boards in the hour before, or in the last hour that is filed.
	before []string
	// near and far are the numbers of samples at most maxInterval after the previous one of their
	// series, and of those later than that.
	near, far    int
	sampledAfter bool // there are samples after the hour
	now          time.Time
	acceptGaps   bool
}

// add adds series of GPUs.
func (c *coverage) add(series []fold.Series) {
	for _, s := range series {
		c.nodes[s.Labels.Get("node")] = true
		for i := 1; i < len(s.Samples); i++ {
			if s.Samples[i].Time-s.Samples[i-1].Time <= maxInterval.Milliseconds() {
				c.near++
			} else {
				c.far++
			}
		}
	}
}

// check returns the silent nodes of an hour. The error is a refusal if its record may be incomplete,
// or errGone.
func (c *coverage) check() (silent []string, err error) {
	switch {
	case !c.sampledAfter && c.now.Sub(c.start) < maxLag:
		return nil, &refusal{errLagging}
	case !c.sampledAfter && len(c.nodes)+len(c.targets) == 0:
		return nil, errGone
	case c.far > c.near: // some are near in downsampled data, too: those beside restarts of counters
		return nil, &refusal{errDownsampled}
	}
	silent = c.silent()
	if c.tooSilent(silent) && !c.acceptGaps {
		return silent, &refusal{fmt.Errorf(
			"%d of %d nodes of the hour before have no samples, and no failed scrapes, such as %s: %w",
			len(silent), len(c.before), strings.Join(silent[:min(3, len(silent))], ", "), errSilent)}
	}
	return silent, nil
}

// tooSilent reports whether so many nodes are silent that the store may be incomplete: all, or
// several.
func (c *coverage) tooSilent(silent []string) bool {
	return len(silent) == len(c.before) && len(silent) > 0 || len(silent) > 1 && float64(len(silent)) > maxSilent*float64(len(c.before))
}

// silent returns the nodes that had boards in the hour before, and have no samples, not even of a
// failed scrape.
func (c *coverage) silent() (silent []string) {
	for _, node := range c.before {
		if !c.nodes[node] && !slices.Contains(c.targets, node) {
			silent = append(silent, node)
		}
	}
	slices.Sort(silent)
	return silent
}
