package books

import (
	"context"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// Demand is a store that may contain the GPU time that pending pods requested.
type Demand interface {
	// For every hour, Pending calls the function each with the GPU time in ms that pending pods of all clusters
	// requested. If the store contains no results of [PendingRule], it never calls this function.
	Pending(ctx context.Context, of Query, each func(hour time.Time, gpuTime int64)) error
}

// PendingRule is the recording rule that counts the GPU hours of pending pods in the last full hour.
const PendingRule = "gpuledger:pending_gpu_hours:sum"

// Pending implements [Demand].
func (s *samples) Pending(ctx context.Context, of Query, each func(hour time.Time, gpuTime int64)) error {
	if s.elsewhere(of) {
		return nil
	}
	return s.hourly(ctx, of, ruleSum{rule: PendingRule, by: "cluster"}, func(fold.Labels) func(time.Time, int64) {
		return func(hour time.Time, value int64) { each(hour, value*3600) } // the value is in thousandths of an hour
	})
}
