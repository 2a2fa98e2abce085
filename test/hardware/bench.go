package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/hardware/driver"
	"github.com/gpuledger/gpuledger/test/program"
)

// bench contains the GPU, the running exporter, and the observations so far. The first comparison that needs an
// observation makes it. Later comparisons reuse it.
type bench struct {
	options
	gpu   *driver.Device
	group *program.Group
	proc  procTree
	url   string
	rate  float64 // rate of the load generator; 0 until it is measured

	idle     once[float64] // power in W without contexts
	held     once[held]
	step     once[step]
	ring     once[time.Duration]
	equal    once[pair]
	patterns once[pair]
	mps      once[served]
}

func open(ctx context.Context, o options, gpu *driver.Device) (*bench, error) {
	group, err := program.Open("hardware")
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, gpu: gpu, group: group, proc: procTree{group.Path("proc")}}
	if err = errors.Join(b.proc.write(), b.startExporter(ctx)); err != nil {
		return nil, errors.Join(fmt.Errorf("start the exporter: %w", err), group.Close())
	}
	return b, nil
}

func (b *bench) startExporter(ctx context.Context) error {
	address, err := program.FreeAddress()
	if err != nil {
		return err
	}
	p, err := b.group.Start("gpuledger", b.exporter,
		"--web.listen-address="+address, "--kubelet.pod-resources-socket=", "--node.name=hardware", "--nvml.library="+b.nvml,
		"--path.procfs="+b.proc.dir, "--state.path="+b.group.Path("state"), "--units.pattern=bench=^"+cgroups+"/([^/]+)",
		"--source=nvml", "--sandbox=false") // the sandbox would hide missing device files from the driver
	if err != nil {
		return err
	}
	b.url = "http://" + address
	return p.Ready(ctx, b.url+"/-/ready")
}

func (b *bench) scrape(ctx context.Context) (exposition.Page, error) {
	return exposition.Scrape(ctx, b.url+"/metrics")
}

func (b *bench) gauge(p exposition.Page, name string) (float64, error) {
	for _, m := range p.Matches(name, map[string]string{"UUID": b.gpu.UUID}) {
		return exposition.Value(m), nil
	}
	return 0, fmt.Errorf("the exporter does not serve %s", name)
}

func (b *bench) compare(ctx context.Context, log io.Writer) []result {
	var results []result
	for _, c := range comparisons {
		r := b.compareOne(ctx, c)
		fmt.Fprintf(log, "%s: %s\n", c.question, r)
		results = append(results, r)
	}
	return results
}

const timeout = 3 * time.Minute

// If a driver call hangs, compareOne returns at the timeout.
func (b *bench) compareOne(ctx context.Context, c comparison) result {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		m, err := c.measure(ctx, b)
		r := result{comparison: c, measured: m}
		switch {
		case err != nil:
			r.finding, r.reason = notRun, err.Error()
		case math.IsNaN(m.value):
			r.finding, r.reason = notRun, "too few readings"
		case m.value < c.low || m.value > c.high:
			r.finding = differs
		}
		done <- r
	}()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
	}
	select { // ends the loads
	case r := <-done:
		return r
	case <-time.After(timeout / 6):
		return result{comparison: c, finding: notRun, reason: "timeout: a driver call does not return"}
	}
}

// once stores the first result of a function.
type once[T any] struct {
	made  bool
	value T
	err   error
}

func (o *once[T]) get(ctx context.Context, observe func(context.Context) (T, error)) (T, error) {
	if !o.made {
		o.made = true
		o.err = errors.New("interrupted") // this error remains if the driver hangs, because observe then does not return
		o.value, o.err = observe(ctx)
	}
	return o.value, o.err
}

func wait(ctx context.Context, t time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(t):
		return nil
	}
}

func until(ctx context.Context, end time.Time, every time.Duration, do func() error) error {
	for time.Now().Before(end) {
		if err := do(); err != nil {
			return err
		}
		if err := wait(ctx, every); err != nil {
			return err
		}
	}
	return nil
}
