package store

import (
	"fmt"

	"github.com/gpuledger/gpuledger/internal/cli"
)

// The memory that data take, in bytes, with what a fold makes of them.
const (
	seriesCost = 1 << 10
	labelCost  = 32
	textCost   = 64 // besides its bytes
	sampleCost = 16
)

const (
	// answerPart is the part of the memory limit that the answers of one reading may take.
	answerPart = 4
	// defaultLimit is used where the program has no memory limit.
	defaultLimit = 4 << 30
	// minBudget is enough for an honest answer: about 1,000 hours of GPUs take 30 MB.
	minBudget = 48 << 20
)

// budget is the memory that answers may still take.
type budget struct{ limit, left int }

// newBudget returns the budget of one reading.
func newBudget() *budget {
	limit := cli.MemoryLimit()
	if limit == 0 {
		limit = defaultLimit
	}
	n := int(max(limit/answerPart, minBudget))
	return &budget{n, n}
}

// spend takes some bytes.
func (b *budget) spend(bytes int) error {
	if b.left -= bytes; b.left >= 0 {
		return nil
	}
	return fmt.Errorf("%w: an answer needs more than %d MiB, a quarter of the memory limit: check the store, or raise the limit and GOMEMLIMIT", ErrTooLarge, b.limit>>20)
}
