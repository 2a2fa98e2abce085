package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

// outlet is a sink with its state. One goroutine may use it at a time.
type outlet struct {
	Destination
	log  *slog.Logger
	sink Sink   // nil while it is not open
	said string // the failure that was logged
}

// file adds events to the sink, which has rows of its own and may change them.
func (o *outlet) file(ctx context.Context, cluster string, events []event.Event) error {
	var errs []error
	for _, t := range table.Appended {
		if rows := table.EventRows(t, cluster, events); len(rows) > 0 {
			errs = append(errs, o.append(ctx, t, rows))
		}
	}
	return errors.Join(errs...)
}

// append adds rows to the sink. The first of several equal failures is logged.
func (o *outlet) append(ctx context.Context, t table.Table, rows [][]any) error {
	err := o.try(ctx, t, rows)
	switch {
	case err == nil:
		if o.said != "" {
			o.log.Info("filing events again")
		}
		o.said = ""
		return nil
	case err.Error() != o.said:
		o.said = err.Error()
		o.log.Error("cannot file events", "err", err)
	}
	o.close()
	return fmt.Errorf("sink %s: %w", o.Name, err)
}

func (o *outlet) try(ctx context.Context, t table.Table, rows [][]any) error {
	if o.sink == nil {
		sink, err := o.Open(ctx)
		if err != nil {
			return err
		}
		o.sink = sink
	}
	return o.sink.Append(ctx, t, rows)
}

func (o *outlet) close() {
	if o.sink == nil {
		return
	}
	if err := o.sink.Close(); err != nil {
		o.log.Debug("cannot close the sink", "err", err)
	}
	o.sink = nil
}
