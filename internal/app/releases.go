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

const releaseEvery = time.Second

type releases struct {
	path   string // path of the state directory
	source *nvml.Source
	now    gpu.Clock
	log    *slog.Logger
	stages *stage.Set
	// inForce is set while the driver or a GPU is released. logged is the last error that was logged.
	last    nvml.Release
	inForce bool
	logged  string
	// looking reads the release file in a separate goroutine, because a call to the file system may hang.
	looking lane.Lane[struct{}]
}

// Run reads the release file at intervals until ctx ends.
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

func (r *releases) look(ctx context.Context) {
	if !r.looking.Busy() {
		r.looking.Begin(func() struct{} { r.apply(); return struct{}{} })
	}
	ctx, cancel := context.WithTimeout(ctx, firstPoll)
	defer cancel()
	r.looking.Take(ctx)
}

func (r *releases) apply() {
	dir, err := state.Share(r.path)
	if err != nil {
		return // the stage with the name state reports the reason
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
		_ = dir.SaveTable(state.Release, &answer) // if this fails, the command reports a timeout
	}
}

// request converts the content of the release file to a request. The end of the request is a time
// on the boot clock, so it does not change if the wall clock is set.
func (r *releases) request(file release, now gpu.Instant) nvml.Release {
	if r.last.GPU != file.GPU || r.last.By != file.By || !r.last.Until.Equal(file.Until) {
		r.last = nvml.Release{GPU: file.GPU, Until: file.Until, By: file.By, Ends: now.Boot + file.Until.Sub(now.Wall)}
	}
	return r.last
}

var errEnded = errors.New("the release expired")

// end ends the current release, if there is one. It logs err if the error is new.
func (r *releases) end(began gpu.Instant, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errEnded) && err.Error() != r.logged {
		r.logged = err.Error()
		r.log.Warn("cannot read the request to release the driver", "err", err)
	}
	if r.inForce {
		r.inForce = false
		_, _ = r.source.Release(nil)
		r.stages.Observe(stage.Release, began, nil) // logs the end of the release
		r.stages.Forget(stage.Release)
	}
}
