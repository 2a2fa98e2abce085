package archive

import (
	"context"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// sink is a place where hours are filed. A sink may also implement the other interfaces in this file.
type sink = sinks.Sink

type corrector interface {
	// Charges returns the filed charges of an hour, and the corrections of the hour.
	Charges(ctx context.Context, cluster string, hour time.Time) ([]table.Charge, error)
	// Correct files corrections of an hour. Earlier corrections remain.
	Correct(ctx context.Context, h *table.Hour) error
}

// reader is a sink that lists the nodes of earlier hours.
type reader interface {
	// Nodes returns the nodes that have GPUs in the last filed hour of a cluster. Only hours that begin at or after the
	// time from, and before the time until, are considered.
	Nodes(ctx context.Context, cluster string, from, until time.Time) ([]string, error)
}

// locator is a sink that lists the GPUs of an hour.
type locator interface {
	// Elsewhere returns the GPUs that were scraped in a filed hour, except the GPUs of the given clusters.
	Elsewhere(ctx context.Context, except []string, hour time.Time) ([]table.Seen, error)
}

// checker is a sink that can compare its rows with its manifest.
type checker interface {
	// Intact reports whether the rows of a filed hour match the digest in the manifest.
	Intact(ctx context.Context, cluster string, hour time.Time) (bool, error)
}

// chained is a sink that links its hours in a chain.
type chained interface {
	// SignWith sets the key that signs the chain; nil means that the chain is not signed.
	SignWith(s *chain.Signer)
	// Head returns the last entry of a cluster's chain, or the zero entry if the cluster has no chain.
	Head(ctx context.Context, cluster string) (table.Entry, error)
}

// lister is a sink that lists the clusters of its manifest.
type lister interface {
	// Clusters returns the span of filed hours of each cluster. It may omit hours before since.
	Clusters(ctx context.Context, since time.Time) (map[string]table.Span, error)
}

// partitioned is a sink that partitions its tables by month.
type partitioned interface {
	// PartitionsEnd returns the start of the first month without a partition, from the current month on. It returns
	// zero if the program can create partitions.
	PartitionsEnd(ctx context.Context, now time.Time) (time.Time, error)
}

// pruner is a sink that can delete hours.
type pruner interface {
	// Prune deletes the rows and events of all hours before the given time, which must be the start of a month. Prune
	// keeps the monthly sums of charges and the manifest, and calls done after each deletion. In a dry run, Prune only
	// calls done.
	Prune(ctx context.Context, before time.Time, dry bool, done func(table.Deleted)) error
}

// renamer is a sink that can rename a cluster.
type renamer interface {
	// RenameCluster changes the name of a cluster in all rows, and returns the number of hours of the cluster. The error
	// is a [table.OverlapError] if both clusters contain the same hour. After any other error the call can be repeated.
	RenameCluster(ctx context.Context, from, to string) (hours int, err error)
}
