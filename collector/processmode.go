package collector

import (
	"fmt"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// ProcessMode selects the processes that get their own series. It is used with [flag.TextVar].
type ProcessMode int

// The process modes.
const (
	// ProcessAlways selects the processes of all containers.
	ProcessAlways ProcessMode = iota
	// ProcessShared selects the processes on a GPU while more than one container holds or uses the GPU. Ended pods do
	// not count. Otherwise a new pod would seem to share the GPU with the ended pod, and short-lived process series
	// would appear.
	ProcessShared
	// ProcessNever selects no processes.
	ProcessNever
)

var processModes = []string{"always", "shared", "never"}

func (m ProcessMode) shows(g *gpu.GPU) bool {
	return m == ProcessAlways || m == ProcessShared && shared(g)
}

func shared(g *gpu.GPU) bool {
	return slices.ContainsFunc(g.Holders, func(h gpu.Holder) bool { return h.Owner != g.Holders[0].Owner })
}

// MarshalText implements [encoding.TextMarshaler].
func (m ProcessMode) MarshalText() ([]byte, error) { return []byte(processModes[m]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *ProcessMode) UnmarshalText(text []byte) error {
	i := slices.Index(processModes, string(text))
	if i < 0 {
		return fmt.Errorf("process mode %q: must be one of %q", text, processModes)
	}
	*m = ProcessMode(i)
	return nil
}
