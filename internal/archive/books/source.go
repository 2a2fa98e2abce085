package books

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Source is an archive, or a store of samples. Each call reads the data again, so answers do not depend on earlier
// calls.
type Source interface {
	// Statement returns the charges in a period, and the hours to which they belong.
	Statement(ctx context.Context, of Query) (*Statement, error)
	// Rows returns the GPUs in every hour, sorted by hour. If a GPU was in two places in an hour, it has two rows for
	// this hour. If the query sets Places, a row may cover several hours. The rows of each GPU are then sorted by their
	// first hour, but different GPUs are in any order.
	Rows(ctx context.Context, of Query) iter.Seq2[Row, error]
	// Hours returns the hours that the source contains, sorted by time. Only some sources set the energy of an hour.
	Hours(ctx context.Context, of Query) iter.Seq2[Hour, error]
	// Boards returns every place of each GPU, in any order. It may include GPUs from the two hours before the period.
	Boards(ctx context.Context, of Query) ([]Board, error)
	// Counted returns the GPUs with their numbers of hours, and the hours that were counted. A store may omit hours.
	Counted(ctx context.Context, of Query) ([]Board, []Hour, error)
	// Name is the name of the source in errors and notices.
	Name() string
	Close() error
}

// Statement contains sums of charges, and the hours with these charges.
type Statement struct {
	// Charges contains sums of charges, including corrections. Charges with the same values in the columns Query.By are
	// in the same sum. The other columns of a sum are empty.
	Charges []table.Charge
	// Hours contains the hours with these charges, sorted by time. Energy is the energy of all boards in the hour.
	Hours []Hour
	// Refusals contains boards with impossible samples, sorted by cluster, hour and board. Their energy in these hours
	// is unknown. A statement from an archive has no refusals.
	Refusals []Refusal
	Rows     []Row
	// Unmeasured is set if the field Exclusive of charges is unknown. Unestimated is set if the fields Estimated and
	// Busy are unknown.
	Unmeasured, Unestimated bool

	// The fields from here on are empty unless the query sets Checks. UnknownPods contains the charged pods that have
	// no series from the reconciler or kube-state-metrics. It is sorted by cluster, namespace and name.
	UnknownPods []UnknownPod
	// Uncounted contains the boards with uncounted energy, in descending order. Bounded is set if the source records
	// uncounted energy.
	Uncounted []Uncounted
	Bounded   bool
}

// Row is a GPU in one hour. If the query sets Places, it is a GPU in consecutive hours.
type Row struct {
	table.GPU
	// LastHour is the last hour of a row with several hours. It is zero for a row with one hour.
	LastHour time.Time
	// Refused contains boards with impossible samples. If it is not empty, the row has no energy and no times.
	Refused fold.BoardErrors
}

// Refusals returns the refused boards with the cluster and the hour of the row.
func (r *Row) Refusals() (all []Refusal) {
	for _, board := range r.Refused {
		all = append(all, Refusal{r.Cluster, r.Hour, board})
	}
	return all
}

var errStopped = errors.New("stopped")

// sequence returns an iterator over the values that the function read passes to the function each. If the caller stops
// the iteration, each returns errStopped, and read must return.
func sequence[T any](read func(each func(T) error) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		stopped := false
		err := read(func(value T) error {
			if stopped = stopped || !yield(value, nil); stopped {
				return errStopped
			}
			return nil
		})
		if err != nil && !stopped {
			var none T
			yield(none, err)
		}
	}
}

func collect[T any](all iter.Seq2[T, error]) (values []T, err error) {
	for value, err := range all {
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

func callEach[T any](values []T, each func(T) error) error {
	for _, value := range values {
		if err := each(value); err != nil {
			return err
		}
	}
	return nil
}

func counted(ctx context.Context, s Source, of Query) ([]Board, []Hour, error) {
	found, err := s.Boards(ctx, of)
	if err != nil {
		return nil, nil, err
	}
	hours, err := collect(s.Hours(ctx, of))
	return found, hours, err
}

// OpenStore returns a source that reads samples or results of rules from a store. It does not connect to the store.
func OpenStore(config store.Config, reading Reading) (Source, error) {
	s, err := store.New(config)
	if err != nil {
		return nil, err
	}
	if reading.Progress == nil {
		reading.Progress = func(string) {}
	}
	of := &samples{store: s, Reading: reading}
	switch reading.Read {
	case "samples":
		return of, nil
	case "rules":
		return &rules{of}, nil
	}
	return &either{of, &rules{of}}, nil
}

// either reads statements about many boards from results of rules. It reads all other data from samples.
type either struct {
	*samples
	rules *rules
}

// Statement implements [Source].
func (e *either) Statement(ctx context.Context, of Query) (*Statement, error) {
	switch suited, err := e.rules.suit(ctx, of); {
	case err != nil:
		return nil, err
	case suited:
		return e.rules.Statement(ctx, of)
	}
	return e.samples.Statement(ctx, of)
}
