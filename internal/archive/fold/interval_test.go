package fold_test

import (
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// joined extends a span by the interval of a charge. It checks that the interval is within the hour.
func joined(t *testing.T, s foldtest.Span, c *table.Charge, hour time.Time) foldtest.Span {
	t.Helper()
	end := hour.Add(time.Hour)
	if owned := c.Reason == ""; owned && (c.Began.After(c.Ended) || !c.Ended.After(hour) || c.Ended.After(end)) || !owned && !c.Began.Equal(c.Ended) {
		t.Errorf("hour %s: the interval of %+v is not in it", hour, c)
	}
	if c.Ended.IsZero() {
		return s
	}
	if s.Began.IsZero() || c.Began.Before(s.Began) {
		s.Began = c.Began
	}
	s.Ended = c.Ended
	return s
}

// sample describes a scrape of a pod's counters. minute is the minute of the scrape. held is the number of seconds for
// which the pod had held the GPU. created is the created timestamp, in minutes on the node's clock.
type sample struct{ minute, held, created float64 }

// absent as the value of held means that the scrape did not contain the pod.
const absent = -1

// TestIntervals checks the interval of a pod in the second hour, from minute 60 to 120. While the pod is absent, the
// board is still scraped.
func TestIntervals(t *testing.T) {
	tests := []struct {
		name         string
		samples      []sample
		began, ended float64 // times in minutes; both are 0 if there is no charge
	}{
		{"throughout", []sample{{59, 600, 10}, {60.5, 690, 10}, {119.5, 4230, 10}}, 60, 119.5},
		{"two seconds", []sample{{79, absent, 0}, {80, 2, 79.5}, {81, 2, 79.5}, {119, 2, 79.5}}, 79.5, 80},
		{"ends", []sample{{59, 600, 10}, {61, 700, 10}, {62, 720, 10}, {63, 720, 10}}, 60, 62},
		{"ended before", []sample{{59, 600, 10}, {61, 600, 10}}, 0, 0},
		{"idle at first", []sample{{59, 600, 10}, {61, 600, 10}, {70, 600, 10}, {71, 610, 10}, {72, 610, 10}}, 70, 71},
		{"pauses", []sample{{59, 600, 10}, {61, 610, 10}, {62, 610, 10}, {90, 610, 10}, {91, 620, 10}}, 60, 91},
		{"begins between two hours", []sample{{59, absent, 0}, {61, 80, 59.7}, {62, 140, 59.7}}, 59.7, 62},
		{"begins while the node is not scraped", []sample{{-100, absent, 0}, {70, 4000, 3}, {71, 4060, 3}}, 3, 71},
		{"returns with new counters", []sample{{30, 600, 10}, {31, absent, 0}, {89, absent, 0}, {90, 10, 89.5}, {91, 70, 89.5}}, 89.5, 91},
		{"the clock of the node is ahead", []sample{{79, absent, 0}, {80, 30, 99.5}, {81, 90, 99.5}}, 80, 81},
		{"the clock of the node is behind", []sample{{79, absent, 0}, {80, 30, -120.5}, {81, 90, -120.5}}, 77, 81},
		{"the clock of the node is behind, and the pod is older", []sample{{59, 30, -500}, {61, 90, -500}}, 60, 61},
		{"the record begins", []sample{{70, 4000, -6000}, {71, 4060, -6000}}, 70, 71},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := history{foldtest.NewStore()}
			for _, x := range tt.samples {
				s.board(x.minute, 1000, -6000, "a")
				if x.held == absent {
					continue
				}
				pod := []string{"node", "a", "UUID", "GPU-1", "namespace", "ml", "pod", "p", "pod_uid", "u"}
				s.Add(at(x.minute), x.held, "gpuledger_allocation_seconds_total", pod...)
				s.Add(at(x.minute), seconds(at(x.created)), "gpuledger_allocation_created_timestamp_seconds", pod...)
			}
			h, err := hour(s.Store, 1)
			check(t, err)
			var got, want foldtest.Span
			for _, c := range h.Charges {
				got = foldtest.Span{Began: c.Began, Ended: c.Ended}
			}
			if tt.ended != 0 {
				want = foldtest.Span{Began: at(tt.began), Ended: at(tt.ended)}
			}
			if got != want {
				t.Errorf("interval %v, want %v", got, want)
			}
		})
	}
}
