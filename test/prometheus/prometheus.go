// Package prometheus runs a real Prometheus for tests and the demo, and loads a history of samples into it. It can
// query this Prometheus and any other server with the same API.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/gpuledger/gpuledger/test/program"
)

// Env is the environment variable with the folder of Programs.
const Env = "GPULEDGER_E2E_PROMETHEUS"

// Programs is the folder that contains prometheus and promtool, as printed by tools/servers.
type Programs string

// FromEnv returns the folder in the environment variable.
func FromEnv() (Programs, error) {
	dir := os.Getenv(Env)
	if dir == "" {
		return "", fmt.Errorf("%s is not set: run the tests with make e2e, or a part of it", Env)
	}
	return Programs(dir), nil
}

// Promtool runs promtool.
func (p Programs) Promtool(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(string(p), "promtool"), args...)
	cmd.Env = append(os.Environ(), "GOGC=400") // fewer garbage collections save a quarter of the processor time
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

// Server is a Prometheus on loopback. Its data is in the group's folder, under the server's name. The data stays when
// the server is started again.
type Server struct {
	Programs
	Group   *program.Group
	Name    string
	Address string
	Config  []byte // configuration in YAML; without it, the server scrapes and evaluates nothing
	Agent   bool   // the server only scrapes and sends, and cannot be queried
	Flags   []string
}

// URL returns the address of the server.
func (s Server) URL() string { return "http://" + s.Address }

func (s Server) data() string { return s.Group.Path(s.Name) }

// Start starts the server and waits until it is ready.
func (s Server) Start(ctx context.Context) (*program.Program, error) {
	file := s.Group.Path(s.Name + ".yaml")
	if err := os.WriteFile(file, s.Config, 0o600); err != nil {
		return nil, err
	}
	args := []string{"--config.file=" + file, "--web.listen-address=" + s.Address}
	if s.Agent {
		args = append(args, "--agent", "--storage.agent.path="+s.data())
	} else {
		args = append(args, "--storage.tsdb.path="+s.data())
	}
	p, err := s.Group.Start(s.Name, filepath.Join(string(s.Programs), "prometheus"), append(args, s.Flags...)...)
	if err != nil {
		return nil, err
	}
	return p, p.Ready(ctx, s.URL()+"/-/ready")
}

// Load loads a history in the OpenMetrics format before the server is started.
func (s Server) Load(ctx context.Context, openMetrics []byte) error {
	text := s.Group.Path(s.Name + ".om")
	if err := os.WriteFile(text, openMetrics, 0o600); err != nil {
		return err
	}
	return s.Promtool(ctx, "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=240h", text, s.data())
}

// Evaluate adds the results of a rule file for the server's history. It starts the server and stops it again. It adds
// all results at the end, because a rule that reads only a part of the results would choose other labels. Therefore a
// rule that reads the results of other rules needs a second call of Evaluate.
func (s Server) Evaluate(ctx context.Context, rules string, from, to time.Time) error {
	results := s.data() + ".rules"
	if err := s.evaluate(ctx, rules, from, to, results); err != nil {
		return err
	}
	blocks, err := os.ReadDir(results)
	for _, b := range blocks {
		err = errors.Join(err, os.Rename(filepath.Join(results, b.Name()), filepath.Join(s.data(), b.Name())))
	}
	return errors.Join(err, os.Remove(results))
}

// evaluate stores the results of a rule file in blocks.
func (s Server) evaluate(ctx context.Context, rules string, from, to time.Time, results string) error {
	p, err := s.Start(ctx)
	if err != nil {
		return err
	}
	defer p.Stop()
	return s.Promtool(ctx, "tsdb", "create-blocks-from", "rules", "--url="+s.URL(), "--output-dir="+results,
		fmt.Sprintf("--start=%d", from.Unix()), fmt.Sprintf("--end=%d", to.Unix()), rules)
}
