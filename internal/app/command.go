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

// These are the commands. On the command line, the command precedes the flags. Without a command
// the program serves its pages.
const (
	// Status prints the state of the node, as a running exporter reports it, and exits.
	Status = "status"
	// Explain asks a running exporter for the causes of a charge, prints them and exits.
	Explain = "explain"
	// UnitsCommand lists the managers of units, or explains the owner of a process, and exits.
	UnitsCommand = "units"
	// DoctorCommand looks for a unit of each manager on this machine and exits.
	DoctorCommand = "doctor"
	// ReleaseCommand makes a running exporter close the driver for a while.
	ReleaseCommand = "release"
	// Cleanup removes the exporter's files from the node and exits.
	Cleanup = "cleanup"
	// Wait blocks until a signal arrives. A DaemonSet that pulls the image in advance runs this
	// command.
	Wait = "wait"
	// AMDFiles writes an archive of the files from which the exporter reads AMD GPUs, and exits.
	AMDFiles = "amd-files"
)

// cleanup removes the state directory. It returns an error if an exporter has locked the state directory. It also
// removes the directory of the Pods API's socket if this directory is empty. On a node whose kubelet does not serve
// the Pods API, the container runtime creates this directory for the mount.
func cleanup(cfg Config, log *slog.Logger) error {
	if err := state.Remove(cfg.StatePath); err != nil {
		return fmt.Errorf("cleanup: %w", err)
	}
	folder := filepath.Dir(cfg.PodsAPI)
	err := os.Remove(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return fmt.Errorf("cleanup: remove the directory of the Pods API: %w", err)
	}
	log.Info("removed all files of the exporter from this node", "state", cfg.StatePath)
	return nil
}
