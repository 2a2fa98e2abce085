package archive

import (
	"context"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// sink is a place where hours are filed. The other interfaces are optional abilities of sinks.
type sink = sinks.Sink

// corrector is a sink that can correct hours of closed months.
type corrector interface {
	// Charges returns the filed charges of an hour, and the corrections of the hour.
	Charges(ctx context.Context, cluster string, hour time.Time) ([]table.Charge, error)
	// Correct files corrections of an hour, in addition to earlier corrections.
	Correct(ctx context.Context, h *table.Hour) error
}

// reader is a sink that lists the nodes of earlier hours.
type reader interface {
	// Nodes returns the nodes with GPUs in the last filed hour of a cluster within a period, which
	// excludes its end.
	Nodes(ctx context.Context, cluster string, from, until time.Time) ([]string, error)
}

// locator is a sink that lists the GPUs of an hour.
type locator interface {
	// Elsewhere returns the scraped GPUs of a filed hour, except the GPUs of some clusters.
	Elsewhere(ctx context.Context, except []string, hour time.Time) ([]table.Seen, error)
}

// checker is a sink that compares its rows with its manifest.
type checker interface {
	// Intact reports whether the rows of a filed hour have the digest in the manifest.
	Intact(ctx context.Context, cluster string, hour time.Time) (bool, error)
}

// chained is a sink with a chain of its hours.
type chained interface {
	// SignWith sets the key that signs the chain; nil means that the chain is not signed.
	SignWith(s *chain.Signer)
	// Head returns the last entry of the chain of a cluster, or the zero entry if the cluster has no
	// chain.
	Head(ctx context.Context, cluster string) (table.Entry, error)
}

// lister is a sink that lists the clusters of its manifest.
type lister interface {
	// Clusters returns the span of filed hours of each cluster. It may omit hours before since.
	Clusters(ctx context.Context, since time.Time) (map[string]table.Span, error)
}

// partitioned is a sink with partitions for months.
type partitioned interface {
	// PartitionsEnd returns the end of the last month that has partitions without a gap since the
	// current month. It is zero if the program can create partitions.
	PartitionsEnd(ctx context.Context, now time.Time) (time.Time, error)
}

// pruner is a sink that can delete hours.
type pruner interface {
	// Prune deletes the rows and the events of the hours before a moment, which must be the start of a
	// month. It keeps the sums of charges and the manifest. It calls done after each deletion. A dry run
	// only calls done.
	Prune(ctx context.Context, before time.Time, dry bool, done func(table.Deleted)) error
}

// renamer is a sink that can give a cluster another name.
type renamer interface {
	// RenameCluster changes the name of a cluster in all its rows, and returns the number of its hours. The error
	// is a [table.OverlapError] if both clusters contain the same hour. After any other error the
	// call can be repeated.
	RenameCluster(ctx context.Context, from, to string) (hours int, err error)
}
