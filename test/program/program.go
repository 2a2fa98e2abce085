package program

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrEnded means that a program ended unexpectedly.
var ErrEnded = errors.New("ended unexpectedly")

// Program is a process with its log in a file.
type Program struct {
	Name string
	Log  string // path of the log

	process *os.Process
	ended   chan struct{} // closed when the process has ended
}

// start runs a command in its own process group, so that Ctrl-C on the terminal reaches the command only through this
// process. The kernel kills the command when this process ends.
func start(name, log string, cmd *exec.Cmd) (*Program, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &Program{Name: name, Log: log, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel kills the command when the thread that started it ends, so this thread must continue.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the log shows how the process ended
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.process = cmd.Process
	return p, nil
}

// Ended returns a channel that is closed when the program has ended.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// PID returns the process id.
func (p *Program) PID() int { return p.process.Pid }

// Kill ends the program abruptly, as a power cut does.
func (p *Program) Kill() {
	_ = p.process.Kill() // the process may have ended already
	<-p.ended
}

// Stop sends SIGTERM and, if the program still runs after ten seconds, SIGKILL.
func (p *Program) Stop() {
	_ = p.process.Signal(syscall.SIGTERM) // the process may have ended already
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		p.Kill()
	}
}

// Wait calls ask repeatedly until it returns nil, the program has ended (ErrEnded), or the context is done. The
// returned error includes the last lines of the log.
func (p *Program) Wait(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s %w: %w\n%s", p.Name, ErrEnded, err, p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w\n%s", p.Name, err, p.Tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Ready waits until the program serves a page, for at most two minutes. This is long enough for a busy machine.
func (p *Program) Ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return p.Wait(ctx, func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	})
}

// information matches a log line at level info from a Kubernetes program.
var information = regexp.MustCompile(`^I\d{4} `)

// Tail returns the last lines of the program's log, except lines that cannot explain a failure.
func (p *Program) Tail() string {
	data, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	lines = slices.DeleteFunc(lines, information.MatchString)
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
