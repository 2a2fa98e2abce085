package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

type served struct {
	named  float64 // share of the work in the samples that name the server
	listed float64 // share of the clients that are in the list of MPS contexts
}

const control = "nvidia-cuda-mps-control"

func (b *bench) observeMPS(ctx context.Context) (s served, err error) {
	path, err := exec.LookPath(control)
	if err != nil {
		return s, fmt.Errorf("no MPS: %w", err)
	}
	pipes, logs := b.group.Path("mps"), b.group.Path("mps-log")
	if err := errors.Join(os.Mkdir(pipes, 0o700), os.Mkdir(logs, 0o700)); err != nil {
		return s, err
	}
	environment := []string{"CUDA_MPS_PIPE_DIRECTORY=" + pipes, "CUDA_MPS_LOG_DIRECTORY=" + logs}
	daemon, err := b.group.Start("mps", "/usr/bin/env", append(environment, path, "-f")...)
	if err != nil {
		return s, err
	}
	defer func() {
		quit := exec.Command(path)
		quit.Env, quit.Stdin = append(os.Environ(), environment...), strings.NewReader("quit\n")
		_ = quit.Run() // an error means that the daemon may have ended already
		daemon.Stop()
	}()
	var clients []*load
	for _, name := range []string{"mps-a", "mps-b"} {
		l, err := b.start(ctx, name, "--mode=full", "--work=6s", "--mps="+pipes)
		if err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, l.end()) }()
		clients = append(clients, l)
	}
	return b.readMPS(ctx, clients)
}

func (b *bench) readMPS(ctx context.Context, clients []*load) (s served, err error) {
	if err := wait(ctx, 4*time.Second); err != nil {
		return s, err
	}
	listed, err := b.gpu.Processes(true)
	if err != nil {
		return s, err
	}
	rows, err := b.gpu.Utilization(time.Now().Add(-3 * time.Second))
	if err != nil {
		return s, err
	}
	var server, all float64
	for _, r := range rows {
		all += r.SM
		if !slices.ContainsFunc(clients, func(l *load) bool { return l.PID() == r.PID }) {
			server += r.SM
		}
	}
	for _, l := range clients {
		if slices.Contains(listed, l.PID()) {
			s.listed += 1 / float64(len(clients))
		}
	}
	s.named = server / all
	return s, nil
}
