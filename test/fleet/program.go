package fleet

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Program is a process of the fleet, with its log in a file.
type Program struct {
	Name    string
	log     string
	process *os.Process
	ended   chan struct{} // closed when it is gone
}

// start runs a program. It is in a process group of its own, so that Ctrl-C on the
// terminal reaches it through its parent only, and the kernel kills it when this
// process ends.
func start(name, log, path string, args []string) (*Program, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &Program{Name: name, log: log, ended: make(chan struct{})}
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
		return nil, err
	}
	p.process = cmd.Process
	return p, nil
}

// Ended is closed when the program is gone.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// Kill ends the program as a power cut would.
func (p *Program) Kill() {
	_ = p.process.Kill() // it may have ended
	<-p.ended
}

// Stop asks the program to end, and kills it after ten seconds.
func (p *Program) Stop() {
	_ = p.process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		p.Kill()
	}
}

// Wait asks until the answer is nil, the program has ended, or the context is done.
func (p *Program) Wait(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended by itself: %w\n%s", p.Name, err, p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w\n%s", p.Name, err, p.Tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ready waits until a page is served.
func (p *Program) ready(ctx context.Context, url string) error {
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

// Tail returns the last lines of the program's log.
func (p *Program) Tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
