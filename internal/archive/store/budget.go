package store

import (
	"fmt"

	"github.com/gpuledger/gpuledger/internal/cli"
)

// These constants estimate the memory for data from the store, in bytes. They include the memory for the rows that are
// computed from these data.
const (
	seriesCost = 1 << 10
	labelCost  = 32
	textCost   = 64 // in addition to the bytes of the string
	sampleCost = 16
)

const (
	// The responses of one read may take this part of the memory limit: 1/answerPart.
	answerPart = 4
	// Data that is kept after a read may take this part of the memory limit: 1/keptPart.
	keptPart = 3
	// defaultLimit is the memory limit if the program has none.
	defaultLimit = 4 << 30
	// minBudget is enough for the response of a correct store. About 1,000 GPU hours take 30 MB.
	minBudget = 48 << 20
)

// budget limits the memory for responses, in bytes. left is the part that is still free.
type budget struct{ limit, left int }

func newBudget() *budget {
	n := max(memoryLimit()/answerPart, minBudget)
	return &budget{n, n}
}

func memoryLimit() int {
	if limit := cli.MemoryLimit(); limit > 0 {
		return int(limit)
	}
	return defaultLimit
}

// These constants estimate the memory for data that is kept after a read, in bytes. They include the overhead of maps.
const (
	rowCost     = 320
	accountCost = 256
)

// Kept returns the memory for the rows of an hour and the last values of its counters, in bytes.
func Kept(rows, accounts int) int { return rows*rowCost + accounts*accountCost }

// CheckKept returns an error if the kept data of a cluster take too much memory.
func CheckKept(bytes int) error {
	if limit := max(memoryLimit()/keptPart, minBudget); bytes > limit {
		return fmt.Errorf("%w: the rows need more than %d MiB, a third of the memory limit: check the store, or raise the limit of the container, or GOMEMLIMIT", ErrTooLarge, limit>>20)
	}
	return nil
}

func (b *budget) spend(bytes int) error {
	if b.left -= bytes; b.left >= 0 {
		return nil
	}
	return fmt.Errorf("%w: an answer needs more than %d MiB, a quarter of the memory limit: check the store, or raise the limit of the container, or GOMEMLIMIT", ErrTooLarge, b.limit>>20)
}
