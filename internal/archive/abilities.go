package archive

import (
	"context"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// A sink may also implement the other interfaces in this file.
type sink = sinks.Sink

type corrector interface {
	// Charges returns the charges of an hour and their corrections.
	Charges(ctx context.Context, cluster string, hour time.Time) ([]table.Charge, error)
	// Correct adds corrections of an hour. Earlier corrections remain.
	Correct(ctx context.Context, h *table.Hour) error
}

type reader interface {
	// Nodes returns the nodes that had GPUs in the last archived hour of a cluster. The hour begins in [from, until).
	Nodes(ctx context.Context, cluster string, from, until time.Time) ([]string, error)
}

type locator interface {
	// Elsewhere returns the GPUs that were scraped in an archived hour. It omits the GPUs of the given clusters.
	Elsewhere(ctx context.Context, except []string, hour time.Time) ([]table.Seen, error)
}

type checker interface {
	// Intact reports whether the rows of an hour match the digest in the manifest.
	Intact(ctx context.Context, cluster string, hour time.Time) (bool, error)
}

// chained is a sink that links the digests of its hours in a hash chain.
type chained interface {
	// SignWith sets the key that signs the chain. If the key is nil, the chain is not signed.
	SignWith(s *chain.Signer)
	// Head returns the last entry of a cluster's chain. It returns the zero entry if the cluster has no chain.
	Head(ctx context.Context, cluster string) (table.Entry, error)
}

type lister interface {
	// Clusters returns the first and last archived hour of each cluster. It may omit hours before since.
	Clusters(ctx context.Context, since time.Time) (map[string]table.Span, error)
}

type partitioned interface {
	// PartitionsEnd returns the start of the first month without a partition, beginning with the current month. It
	// returns zero if the program may create partitions itself.
	PartitionsEnd(ctx context.Context, now time.Time) (time.Time, error)
}

type pruner interface {
	// Prune deletes the rows and events of all hours before the given time, which must be the start of a month. It
	// keeps the monthly sums of charges and the manifest. After each deletion, it calls the function done. A dry run
	// only calls this function.
	Prune(ctx context.Context, before time.Time, dry bool, done func(table.Deleted)) error
}

type renamer interface {
	// RenameCluster changes the name of a cluster in all rows, and returns the number of its hours. If both clusters
	// contain the same hour, the error is a [table.OverlapError]. After any other error, the caller can repeat the
	// call.
	RenameCluster(ctx context.Context, from, to string) (hours int, err error)
}
