package app

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gpuledger/gpuledger/internal/state"
)

// The commands that the program takes before its flags. Without one it serves.
const (
	// Status prints the state of the node that a running exporter shows, and ends.
	Status = "status"
	// Cleanup removes what the exporter left on the node, and ends.
	Cleanup = "cleanup"
	// Wait does nothing until it is told to end, for a DaemonSet that pulls the image.
	Wait = "wait"
)

// cleanup removes the ledger's folder, which no exporter may hold any more, and the
// folder of the Pods API if it is empty: where the kubelet has no such API, the
// container runtime made it to mount it.
func cleanup(cfg Config, log *slog.Logger) error {
	if err := state.Remove(cfg.StatePath); err != nil {
		return fmt.Errorf("cleanup: %w", err)
	}
	folder := filepath.Dir(cfg.PodsAPI)
	err := os.Remove(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return fmt.Errorf("cleanup: remove the folder of the Pods API: %w", err)
	}
	log.Info("nothing of the exporter is left on this node", "state", cfg.StatePath)
	return nil
}
