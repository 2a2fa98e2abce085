// Package fold computes the rows of one cluster and one hour from raw samples of the exporter's counters
// (docs/history.md). It uses only the standard library, and does not read a clock.
//
// Energy and times are differences of counters, as integers in millijoules and milliseconds. The last value of an hour
// is the opening value of the next hour. Therefore the energy of hours adds up exactly to the energy of days. The
// charges of a GPU add up exactly to the energy of its board.
package fold

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Lookback is the maximum age of an opening value (see [Openings]) at the start of the hour.
const Lookback = 24 * time.Hour

// Sample is a raw sample of a series. Time is in milliseconds since the Unix epoch.
type Sample struct {
	Time  int64
	Value float64
}

// Series is a series with its samples, sorted by time.
type Series struct {
	Labels  Labels
	Samples []Sample
}

// Input contains the samples of an hour for all or some GPUs of a cluster.
type Input struct {
	Cluster string
	Start   time.Time
	// MaxPower is the maximum power of a GPU in watts. 0 means [DefaultMaxPower].
	MaxPower int64
	// Openings contains the last samples at or before the start of the hour. They must not be older than Lookback.
	Openings Openings
	// Series contains the samples after the start of the hour, up to its end.
	Series []Series
}

// Unrecorded is the reason for energy of pods or units without series. The exporter was not scraped between their start
// and their end.
const Unrecorded = "unrecorded"

// These errors mean that the energy of a board in an hour is unknown.
var (
	// ErrReplicas means that two series of the same counter overlap in time. The reason is that the store does not
	// deduplicate replicas of Prometheus.
	ErrReplicas = errors.New("two series of the same counter overlap in time: deduplicate the replicas of Prometheus in the store")
	// ErrOvercharged means that charges exceed the energy of a board.
	ErrOvercharged = errors.New("the charges exceed the energy of the board")
	// ErrImplausible means that a board has several impossible values in a row. If only one value is impossible, it is
	// dropped.
	ErrImplausible = errors.New("the samples are implausible: delete these samples in the store, or raise --gpu.max-power if the board can draw more power")
)

// Fold computes the rows of an hour, without the names of owners. The error is of type [BoardErrors]. An hour with an
// error contains places, health, pods and units, but no energy and no times.
func Fold(in Input) (*table.Hour, error) {
	hour := &table.Hour{Cluster: in.Cluster, Start: in.Start.UTC()}
	r := rows{gpus: make(map[gpuKey]*table.GPU), charges: make(map[chargeKey]*table.Charge), refused: make(map[gpuKey]*BoardError)}
	for _, b := range boardsOf(&in) {
		r.place(b.series)
		r.levels(b.series)
		err := b.settle()
		if err == nil {
			err = b.sum()
		}
		if err != nil {
			r.refused[b.gpuKey] = b.fail(err)
			b.healthOnly()
		}
		hour.Dropped += len(b.dropped)
		for _, t := range b.tracks {
			if t.kind == hardware && len(t.samples) == 0 {
				continue // unknown
			}
			t.add(&r, t.account, t.sum)
			r.extend(t)
		}
	}
	return hour, r.close(hour)
}

// merge joins the series of each counter. The series must not overlap in time.
func (c *counter) merge(series []Series) (map[Account][]Sample, error) {
	slices.SortFunc(series, func(a, b Series) int { return cmp.Compare(a.Samples[0].Time, b.Samples[0].Time) })
	accounts := make(map[Account][]Sample, len(series))
	for _, s := range series {
		a := c.account(s.Labels)
		known := accounts[a]
		switch {
		case known == nil:
			accounts[a] = s.Samples
		case known[len(known)-1].Time >= s.Samples[0].Time:
			return nil, fmt.Errorf("%s: %w", c.name, ErrReplicas)
		default:
			accounts[a] = slices.Concat(known, s.Samples)
		}
	}
	return accounts, nil
}
