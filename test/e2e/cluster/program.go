//go:build e2e

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// errEnded says that a program ended that should run.
var errEnded = errors.New("ended by itself")

// program is a server that runs beside the tests, with its log in a file.
type program struct {
	name, log string
	process   *os.Process
	ended     chan struct{} // closed when it is gone
}

// start runs one of the programs. The kernel kills it when this process ends.
func (c *Cluster) start(name string, args ...string) (*program, error) {
	p := &program{name: name, log: c.path(fmt.Sprintf("%s-%d.log", name, len(c.running))), ended: make(chan struct{})}
	file, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd := exec.Command(filepath.Join(c.programs, name), args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = file, file, c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The signal comes with the end of the thread, so the thread has to stay.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.process = cmd.Process
	c.running = append(c.running, p)
	return p, nil
}

func (p *program) kill() {
	_ = p.process.Kill() // it may have ended
	<-p.ended
}

// wait asks until the answer is nil, the program has ended, or the time is over.
func (p *program) wait(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s %w: %w", p.name, errEnded, err)
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", p.name, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// information begins a line of a Kubernetes program's log that says nothing is wrong.
var information = regexp.MustCompile(`^I\d{4} `)

// tail returns the last lines of the log that are more than information.
func (p *program) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	lines = slices.DeleteFunc(lines, information.MatchString)
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
