package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gpuledger/gpuledger/test/program"
)

type load struct {
	*program.Program
	bench *bench
}

// work is a line of JSON from the load generator.
type work struct {
	Rate       float64       `json:"rate"`
	Iterations float64       `json:"iterations"`
	Busy       time.Duration `json:"busy_ns"`
	BeganNs    int64         `json:"began_ns"`
	EndedNs    int64         `json:"ended_ns"`
}

func (w work) began() time.Time { return time.Unix(0, w.BeganNs) }
func (w work) ended() time.Time { return time.Unix(0, w.EndedNs) }

// start returns when the load's context is open. Each load is a separate owner.
func (b *bench) start(ctx context.Context, name string, args ...string) (*load, error) {
	args = append([]string{"--library=" + b.cuda, "--bus=" + b.gpu.Bus}, args...)
	if b.rate > 0 {
		args = append(args, fmt.Sprintf("--rate=%g", b.rate))
	}
	p, err := b.group.Start(name, b.load, args...)
	if err != nil {
		return nil, err
	}
	l := &load{p, b}
	if err := b.proc.add(p.PID(), cgroups+"/"+name); err != nil {
		return nil, errors.Join(err, l.end())
	}
	first, err := l.line(ctx, 0)
	if err != nil {
		return nil, errors.Join(err, l.end())
	}
	if first.Rate > 0 {
		b.rate = first.Rate
	}
	return l, nil
}

func (l *load) line(ctx context.Context, n int) (w work, err error) {
	err = l.Wait(ctx, func() error {
		text, err := os.ReadFile(l.Log)
		if err != nil {
			return err
		}
		lines := bytes.Split(text, []byte("\n")) // the last element is an incomplete or empty line
		if len(lines) < n+2 {
			return fmt.Errorf("line %d of %s is missing", n+1, l.Name)
		}
		return json.Unmarshal(lines[n], &w)
	})
	return w, err
}

func (l *load) result(ctx context.Context) (work, error) { return l.line(ctx, 1) }

// worked reports whether the load has finished its work or has ended.
func (l *load) worked() bool {
	select {
	case <-l.Ended():
		return true
	default:
	}
	text, err := os.ReadFile(l.Log)
	return err != nil || bytes.Count(text, []byte("\n")) >= 2
}

func (l *load) end() error {
	l.Stop()
	return l.bench.proc.remove(l.PID())
}
