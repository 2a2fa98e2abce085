package books

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
)

// ErrNoChain means that the database has no hash chain, because an earlier version wrote it.
var ErrNoChain = errors.New("an earlier version filed the hours in the database, so the database has no chain: start gpuledger-archive run or once of this version")

// Chained is a source that links its hours in hash chains.
type Chained interface {
	// Chains returns the parts of the source. Each part contains all hours. For example, each format is a part if an
	// archive has files in two formats.
	Chains(ctx context.Context) ([]ChainedPart, error)
}

// ChainedPart is a part of a source that has its own hash chain for each cluster.
type ChainedPart struct {
	Name   string
	Source chain.Source
}

// Chains implements [Chained].
func (d *database) Chains(context.Context) ([]ChainedPart, error) {
	if !d.known["chain.sequence"] {
		return nil, fmt.Errorf("%s: %w", d.name, ErrNoChain)
	}
	return []ChainedPart{{d.name, d.Reader}}, nil
}

// Chains implements [Chained].
func (f *folder) Chains(ctx context.Context) (all []ChainedPart, err error) {
	formats, err := f.reader.Formats(ctx)
	for _, r := range formats {
		all = append(all, ChainedPart{f.path + " (" + r.Format() + ")", r})
	}
	return all, err
}
