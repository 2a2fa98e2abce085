package app

import (
	"context"
	"errors"
	"time"

	"github.com/gpuledger/gpuledger/internal/serve"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
)

// Restart is the error of [Run] if the program must be executed again in this process.
type Restart struct {
	Cause error
	// Environment contains variables that pass the server's open sockets to the program that this process executes.
	Environment []string
}

func (r Restart) Error() string { return r.Cause.Error() }

// firstReading limits the time for which the server waits for the first reading after a restart. Clients that connected
// before the restart wait for the server.
const firstReading = 5 * time.Second

// runNVML collects the driver's events. If the driver was replaced, it returns a [Restart]. If a
// restart is not possible, it returns another error that ends the program.
func runNVML(ctx context.Context, source *nvml.Source, server *serve.Server) error {
	err := source.Run(ctx)
	replaced, ok := errors.AsType[nvml.Replaced](err)
	if !ok || !replaced.NewFile {
		return err
	}
	environment, failed := server.Bequeath()
	if failed != nil {
		return errors.Join(err, failed)
	}
	return Restart{Cause: err, Environment: environment}
}

func awaitReading(ctx context.Context, ready func() bool) {
	ctx, cancel := context.WithTimeout(ctx, firstReading)
	defer cancel()
	for !ready() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(firstReading / 100):
		}
	}
}

// withoutRestart replaces the error [Restart] by its cause, so that the program ends and does not
// execute itself again. An execve would wait for all threads, and a hanging driver call may block a
// thread forever.
func withoutRestart(err error) error {
	if r, ok := errors.AsType[Restart](err); ok {
		return r.Cause
	}
	return err
}
