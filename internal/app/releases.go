package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/lane"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/internal/state"
)

// releaseEvery is the interval at which the exporter looks for a request.
const releaseEvery = time.Second

// releases executes the requests of [ReleaseCommand].
type releases struct {
	path    string // path of the state directory
	source  *nvml.Source
	now     gpu.Clock
	log     *slog.Logger
	stages  *stage.Set
	last    nvml.Release // request
	inForce bool
	logged  string              // last error of the file
	looking lane.Lane[struct{}] // its calls read a file system that may hang
}

// Run looks for requests until ctx ends.
func (r *releases) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		r.look(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(releaseEvery):
		}
	}
	return nil
}

// look reads the file once.
func (r *releases) look(ctx context.Context) {
	if !r.looking.Busy() {
		r.looking.Begin(func() struct{} { r.apply(); return struct{}{} })
	}
	ctx, cancel := context.WithTimeout(ctx, firstPoll)
	defer cancel()
	r.looking.Take(ctx)
}

// apply performs the release that the file requests, and adds the result to the file.
func (r *releases) apply() {
	dir, err := state.Share(r.path)
	if err != nil {
		return // the stage state reports the reason
	}
	defer dir.Close()
	began := r.now()
	var file release
	if err = dir.LoadTable(state.Release, &file, file.check); err != nil {
		r.end(began, err)
		return
	}
	request := r.request(file, began)
	if began.Boot >= request.Ends {
		r.end(began, errors.Join(errEnded, dir.RemoveTable(state.Release)))
		return
	}
	answer := file
	answer.Error = ""
	if answer.Done, err = r.source.Release(&request); err != nil {
		answer.Error = err.Error()
		r.end(began, nil)
	} else {
		r.inForce = true
		r.stages.Observe(stage.Release, began, request)
	}
	if answer != file && file.isIn(dir) {
		_ = dir.SaveTable(state.Release, &answer) // if this fails, the command times out and reports that
	}
}

// request returns the request that a file contains. Setting the clock does not move the end of the
// release.
func (r *releases) request(file release, now gpu.Instant) nvml.Release {
	if r.last.GPU != file.GPU || r.last.By != file.By || !r.last.Until.Equal(file.Until) {
		r.last = nvml.Release{GPU: file.GPU, Until: file.Until, By: file.By, Ends: now.Boot + file.Until.Sub(now.Wall)}
	}
	return r.last
}

// errEnded is the error for a request that has expired.
var errEnded = errors.New("the release expired")

// end ends a release.
func (r *releases) end(began gpu.Instant, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errEnded) && err.Error() != r.logged {
		r.logged = err.Error()
		r.log.Warn("cannot read the request to release the driver", "err", err)
	}
	if r.inForce {
		r.inForce = false
		_, _ = r.source.Release(nil)
		r.stages.Observe(stage.Release, began, nil) // logs it
		r.stages.Forget(stage.Release)
	}
}
