// Command load opens a context on a GPU and keeps it busy in a known pattern, through the CUDA driver API. It prints a
// line of JSON when the context is open, and another line when the work is done. Then it keeps the context open for the
// time in --keep, or until it receives a signal.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// chunk is the duration of one kernel launch. At full load, the duration is longChunk, because two launches must last
// longer than any delay of this program.
const (
	chunk     = 20 * time.Millisecond
	longChunk = 50 * time.Millisecond
)

// modes contains the patterns of work. Each pattern repeats after its period.
var modes = map[string]time.Duration{"hold": 0, "full": 0, "smooth": 100 * time.Millisecond, "bursts": 5 * time.Second}

type options struct {
	library, bus, mode string
	mps                string
	work, keep         time.Duration
	duty, rate         float64
}

// Done is a line of output. In the line before the work, only PID, Mode and Rate are set.
type Done struct {
	PID  int    `json:"pid"`
	Mode string `json:"mode"`
	// Rate is the number of iterations per second of a kernel that runs alone.
	Rate       float64       `json:"rate"`
	Iterations uint64        `json:"iterations"`
	Busy       time.Duration `json:"busy_ns"` // time measured by the events around the kernels
	Began      int64         `json:"began_ns"`
	Ended      int64         `json:"ended_ns"` // wall-clock time
}

func main() {
	runtime.LockOSThread() // a context belongs to a thread, so the thread must not change
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.mps != "" {
		if err := os.Setenv("CUDA_MPS_PIPE_DIRECTORY", o.mps); err != nil {
			return err
		}
	}
	d, err := open(o.library, o.bus)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	done := Done{PID: os.Getpid(), Mode: o.mode, Rate: o.rate}
	if done.Rate == 0 && o.mode != "hold" {
		if done.Rate, err = calibrate(d); err != nil {
			return err
		}
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(done); err != nil {
		return err
	}
	if err := o.perform(ctx, d, &done); err != nil {
		return err
	}
	if err := out.Encode(done); err != nil {
		return err
	}
	pause(ctx, o.keep)
	return nil
}

func parse(args []string) (o options, err error) {
	fs := flag.NewFlagSet("load", flag.ContinueOnError)
	fs.StringVar(&o.library, "library", "libcuda.so.1", "`path` of the CUDA driver's library")
	fs.StringVar(&o.bus, "bus", "", "PCI `address` of the GPU")
	fs.StringVar(&o.mps, "mps", "", "`directory` of the pipes of an MPS daemon, to be its client")
	fs.StringVar(&o.mode, "mode", "hold", "`pattern` of the work: hold (none), full, smooth (every 100 ms), bursts (every 5 s)")
	fs.DurationVar(&o.work, "work", 0, "`time` that the work takes on a GPU without other work, at full load")
	fs.Float64Var(&o.duty, "duty", 0.2, "busy `share` of the time for the modes smooth and bursts")
	fs.DurationVar(&o.keep, "keep", time.Hour, "`time` for which the context stays open after the work")
	fs.Float64Var(&o.rate, "rate", 0, "`iterations` per second; 0 measures them, which takes a moment of full load")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	switch _, known := modes[o.mode]; {
	case !known:
		err = fmt.Errorf("--mode=%s: must be hold, full, smooth or bursts", o.mode)
	case !(o.duty > 0 && o.duty <= 1):
		err = fmt.Errorf("--duty=%g: must be above 0 and at most 1", o.duty)
	case !(o.rate >= 0):
		err = fmt.Errorf("--rate=%g: must not be negative", o.rate)
	}
	return o, err
}

// calibrate returns the number of iterations per second. It takes the best of several kernels with a duration of about
// one chunk, because the first kernels run at a low clock.
func calibrate(d device) (best float64, err error) {
	n := uint64(10_000)
	for range 12 {
		if err := d.launch(0, n); err != nil {
			return 0, err
		}
		took, err := d.wait(0)
		if err != nil {
			return 0, err
		}
		if took <= 0 {
			return 0, fmt.Errorf("a kernel of %d iterations took %v", n, took)
		}
		rate := float64(n) / took.Seconds()
		best = max(best, rate)
		n = min(max(uint64(rate*chunk.Seconds()), 1), 100*n)
	}
	return best, nil
}

// perform does the whole work of a period even if the period starts late.
func (o options) perform(ctx context.Context, d device, done *Done) error {
	period, step := modes[o.mode], longChunk
	if o.mode == "hold" {
		return nil
	}
	each := 0 // number of launches in a period; 0 for full load
	if period > 0 {
		step = min(chunk, time.Duration(o.duty*float64(period)))
		each = int(o.duty * float64(period) / float64(step))
	}
	q := queue{device: d, iterations: uint64(done.Rate * step.Seconds()), done: done}
	began := time.Now()
	done.Began = began.UnixNano()
	for k := 0; k < int(o.work/step) && ctx.Err() == nil; k++ {
		if each > 0 && k%each == 0 {
			if err := q.drain(); err != nil {
				return err
			}
			pause(ctx, time.Until(began.Add(time.Duration(k/each)*period)))
		}
		if err := q.launch(); err != nil {
			return err
		}
	}
	err := q.drain()
	done.Ended = time.Now().UnixNano()
	return err
}

// queue contains up to two launches, so that the GPU never waits for this program.
type queue struct {
	device
	iterations       uint64
	launched, waited int
	done             *Done
}

func (q *queue) launch() error {
	if q.launched-q.waited == 2 {
		if err := q.next(); err != nil {
			return err
		}
	}
	q.launched++
	return q.device.launch(q.launched%2, q.iterations)
}

func (q *queue) next() error {
	q.waited++
	took, err := q.wait(q.waited % 2)
	q.done.Busy += took
	q.done.Iterations += q.iterations
	return err
}

func (q *queue) drain() error {
	for q.waited < q.launched {
		if err := q.next(); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, t time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(t):
	}
}
