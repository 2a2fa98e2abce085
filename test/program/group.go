// Package program runs real programs on loopback, for tests and the demo. The logs of the programs are in one folder.
// The programs end with the process that started them, even if it is killed.
package program

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// Group contains programs and their folder. Its methods must not be called concurrently.
type Group struct {
	dir     string
	running []*Program
}

// Open creates a folder for programs. Close removes the folder. Its name is short, because it may contain sockets.
func Open(name string) (*Group, error) {
	dir, err := os.MkdirTemp("", name)
	return &Group{dir: dir}, err
}

// Path returns a path in the group's folder.
func (g *Group) Path(name ...string) string {
	return filepath.Join(append([]string{g.dir}, name...)...)
}

// Start runs the program at path in the group's folder. The name is for logs.
func (g *Group) Start(name, path string, args ...string) (*Program, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = g.dir
	p, err := start(name, g.Path(fmt.Sprintf("%s.%d.log", name, len(g.running))), cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	g.running = append(g.running, p)
	return p, nil
}

// Logs writes the last lines of every program's log.
func (g *Group) Logs(w io.Writer) {
	for _, p := range g.running {
		fmt.Fprintf(w, "--- end of the log of %s:\n%s\n", p.Name, p.Tail())
	}
}

// Kill kills all programs. Call it only if their data is not needed.
func (g *Group) Kill() {
	for _, p := range g.running {
		p.Kill()
	}
}

// Close ends all programs, the newest first, and removes their files.
func (g *Group) Close() error {
	for _, p := range slices.Backward(g.running) {
		p.Stop()
	}
	return os.RemoveAll(g.dir)
}

// The kernel takes the ports of outgoing connections from the ports after lastPort. Thus they cannot take the port of a
// program that is restarted.
const firstPort, lastPort = 10_000, 32_767

// FreeAddress returns a loopback address without a listener.
func FreeAddress() (string, error) {
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort+1))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", err
}

// WaitFree waits until no program listens on an address, for at most ten seconds. Call it after simnode was killed. The
// kernel then also kills the exporter that simnode started, but the exporter may end a moment later.
func WaitFree(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		l, err := net.Listen("tcp", address)
		if err == nil {
			return l.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Port returns the port of an address.
func Port(address string) string {
	_, port, _ := net.SplitHostPort(address) // the address is valid, because it comes from FreeAddress
	return port
}
