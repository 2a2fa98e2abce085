package blindness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/program"
)

// Programs contains the paths of the exporter and of the fake driver library.
type Programs struct{ Exporter, Library string }

// A machine is the simulated node of a schedule, with its exporter. Only the method address is safe for concurrent use.
type machine struct {
	schedule *Schedule
	programs Programs
	group    *program.Group
	node     *simnode.Node
	started  gpu.Instant

	exporter *program.Program // nil while the exporter is down
	lives    int
	downAt   time.Duration // time at which the exporter ended
	blind    []blindness
	faults   []simnode.Fault
	counters []counter
	mute     []io.Closer
	mounted  bool // the folder of the state directory is mounted

	prolog      prologMode
	prologSince time.Duration
	held        map[string]string

	mu  sync.Mutex
	url string // address of the exporter; empty while the exporter is down
}

// openMachine doesn't start the exporter.
func openMachine(s *Schedule, p Programs) (m *machine, err error) {
	m = &machine{schedule: s, programs: p, counters: make([]counter, len(s.GPUs))}
	if m.group, err = program.Open("b"); err != nil {
		return nil, err
	}
	sc, err := s.scenario()
	if err != nil {
		return nil, errors.Join(err, m.group.Close())
	}
	m.started = host.Now()
	if m.node, err = simnode.Open(m.group.Path("node"), sc, m.started); err != nil {
		return nil, errors.Join(err, m.group.Close())
	}
	if err := m.openState(); err != nil {
		return nil, errors.Join(err, m.node.Close(), m.group.Close())
	}
	if err := errors.Join(m.openProc(), m.openHeld(), m.advance(), m.writeHeld(0)); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *machine) close() error {
	m.group.Kill()
	return errors.Join(m.node.Close(), m.closeState(), m.group.Close())
}

func (m *machine) elapsed() time.Duration { return host.Now().Boot - m.started.Boot }

// advance simulates the node until the end of the current step, and writes the driver's state.
func (m *machine) advance() error {
	now := host.Now()
	now.Boot, now.Wall = now.Boot+step, now.Wall.Add(step)
	if err := m.node.Step(now); err != nil {
		return err
	}
	return m.publish()
}

// publish replaces the energy counters in the driver's state with the values that the driver returns.
func (m *machine) publish() error {
	state, err := os.ReadFile(filepath.Join(m.node.Dir(), "driver", "state.tsv"))
	if err != nil {
		return err
	}
	path := m.driverState()
	if err := os.WriteFile(path+".new", m.show(m.elapsed(), state), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (m *machine) driverState() string { return m.group.Path("driver.tsv") }

// The last value of a flag applies, so these flags override the node's flags.
func (m *machine) flags() []string {
	return append(m.node.Flags(),
		"--web.listen-address=127.0.0.1:0", "--log.format=json", "--retention=1h",
		"--collector.health=false", // these counters restart when the driver is loaded
		"--nvml.library="+m.programs.Library, "--nvml.call-timeout=2s",
		"--path.procfs="+m.group.Path(procLink), "--state.path="+m.stateDir(), "--units.held-dir="+m.heldDir())
}

func (m *machine) launch(Spell) error {
	if m.exporter != nil {
		return nil
	}
	m.lives++
	args := append([]string{"GPULEDGER_FAKE_NVML_STATE=" + m.driverState(), m.programs.Exporter}, m.flags()...)
	p, err := m.group.Start(fmt.Sprintf("exporter-%d", m.lives), "/usr/bin/env", args...)
	if err != nil {
		return err
	}
	m.exporter = p
	if m.lives > 1 {
		m.note(hidesAll, span{m.downAt, m.elapsed() + starting})
	}
	go m.follow(p)
	return nil
}

func (m *machine) follow(p *program.Program) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = p.Wait(ctx, func() error { // the wait may fail because an outage ended the exporter; otherwise the pages show the failure
		address := listening(p.Log)
		if address == "" {
			return errors.New("not listening")
		}
		m.setURL("http://" + address + "/metrics")
		return nil
	})
}

func listening(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		var entry struct{ Msg, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "Listening on" {
			return entry.Address
		}
	}
	return ""
}

func (m *machine) setURL(url string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.url = url
}

func (m *machine) address() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.url
}

// kill ends the exporter like a crash. stop ends it like an upgrade.
func (m *machine) kill(Spell) error { return m.end((*program.Program).Kill) }
func (m *machine) stop(Spell) error { return m.end((*program.Program).Stop) }

func (m *machine) restart(s Spell) error { return errors.Join(m.stop(s), m.launch(s)) }

func (m *machine) end(by func(*program.Program)) error {
	if m.exporter == nil {
		return nil
	}
	m.downAt = m.elapsed()
	m.setURL("")
	by(m.exporter)
	m.exporter = nil
	return nil
}

func (m *machine) note(what hides, when span) {
	m.blind = append(m.blind, blindness{what, everyGPU, when, ""})
}
