package store

import (
	"context"
	"io"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// Window is the period (After, Until].
type Window struct{ After, Until time.Time }

func (w Window) within(samples []fold.Sample) []fold.Sample {
	from, to := w.After.UnixMilli(), w.Until.UnixMilli()
	return slices.DeleteFunc(samples, func(x fold.Sample) bool { return x.Time <= from || x.Time > to })
}

// reader evaluates several queries with one decoder, which limits their total memory.
type reader struct {
	*Store
	decoder *decoder
}

func (s *Store) reader() *reader { return &reader{s, newDecoder(newBudget())} }

func (r *reader) ask(ctx context.Context, expr string, at time.Time, add func(fold.Series)) error {
	form := url.Values{"query": {expr}, "time": {strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)}}
	return r.post(ctx, "query", form, func(body io.Reader) error { return r.decoder.decode(body, add) })
}

func (r *reader) raw(ctx context.Context, selector string, of Window) (found []fold.Series, err error) {
	window := strconv.FormatInt(int64(of.Until.Sub(of.After).Seconds()), 10) + "s"
	err = r.ask(ctx, selector+"["+window+"]", of.Until, func(x fold.Series) {
		x.Samples = of.within(x.Samples) // in Prometheus 2, the window includes a sample at its start
		if len(x.Samples) > 0 {
			found = append(found, x)
		}
	})
	return found, err
}
