package simnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Node is a simulated node on disk. It is safe for concurrent use.
type Node struct {
	dir  string
	proc procTree
	logs logTree
	amd  amdTree // empty if the node has no AMD GPUs

	mu      sync.Mutex
	world   *world
	kubelet *kubelet
	truth   *truthLog
	live    bool
	faults  []Fault
	engine  Engine
	module  string // version of NVIDIA's kernel module in /sys; empty if the module is not loaded
}

// Open creates a node in a directory, which must be empty or must not exist. The directory's path should be short,
// because the path of a socket is limited to 107 bytes. When Open returns, the first state is on disk. The node serves
// the kubelet's sockets until it is closed.
func Open(dir string, sc Scenario, start gpu.Instant) (*Node, error) {
	sc = sc.withUnits()
	if err := sc.validate(); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", sc.Name, err)
	}
	dir, err := emptyDir(dir)
	if err != nil {
		return nil, err
	}
	n := &Node{
		dir:   dir,
		proc:  procTree{dir: filepath.Join(dir, "proc"), scratch: filepath.Join(dir, "proc.new"), private: sc.PrivatePIDs},
		amd:   newAMDTree(dir),
		logs:  logTree{links: filepath.Join(dir, "log", "containers"), pods: filepath.Join(dir, "log", "pods")},
		world: newWorld(sc, start),
	}
	if n.kubelet, err = openKubelet(dir, &n.world.scenario); err != nil {
		return nil, err
	}
	if err := n.begin(); err != nil {
		return nil, errors.Join(err, n.kubelet.close())
	}
	return n, nil
}

// emptyDir creates a directory and returns its absolute path. An existing directory must be empty.
func emptyDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("directory %s is not empty", dir)
	}
	for _, sub := range []string{"proc", "sys", "kfd.new", "log/containers", "log/pods", "driver", "dev", "state"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func (n *Node) begin() error {
	w := n.world
	boot := uuid(w.scenario.Name, strconv.FormatInt(w.start.Wall.Add(-w.start.Boot).UnixNano(), 10))
	if err := n.proc.write(boot, w.start); err != nil {
		return fmt.Errorf("write /proc: %w", err)
	}
	if err := writeSys(filepath.Join(n.dir, "sys"), &w.scenario); err != nil {
		return fmt.Errorf("write /sys: %w", err)
	}
	if err := errors.Join(n.writeDevices(), writeFiles(n.dir, w.scenario.Files)); err != nil {
		return err
	}
	for _, p := range w.daemons {
		if err := n.startProcess(p); err != nil {
			return fmt.Errorf("start process %d: %w", p.id.PID, err)
		}
	}
	if err := n.apply(change{startedPods: w.pods}); err != nil {
		return err
	}
	truth, err := openTruthLog(n.dir)
	if err != nil {
		return fmt.Errorf("open truth: %w", err)
	}
	n.truth = truth
	return errors.Join(n.truth.add(w.truth(), 0), n.publish())
}

// Step advances the node to the given time, in whole steps of 100 ms since the start. If no step is due, Step does
// nothing.
func (n *Node) Step(now gpu.Instant) error {
	return n.Watch(now, nil)
}

// Watch is [Node.Step] with a callback. It calls report after every step with the truth and the activity of the step.
// report may be nil.
func (n *Node) Watch(now gpu.Instant, report func(Truth, []Activity)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	due := int64(now.Sub(n.world.start) / step)
	if due <= n.world.steps {
		return nil
	}
	for n.world.steps < due {
		if err := n.apply(n.world.advance()); err != nil {
			return err
		}
		if err := n.addTruth(report); err != nil {
			return err
		}
	}
	return n.publish()
}

// addTruth writes the truth of the last step, unless NoTruth is set. It also calls report, unless report is nil.
func (n *Node) addTruth(report func(Truth, []Activity)) error {
	written := !n.world.scenario.NoTruth
	if !written && report == nil {
		return nil
	}
	row := n.world.truth()
	if written {
		if err := n.truth.add(row, n.world.steps); err != nil {
			return fmt.Errorf("write truth: %w", err)
		}
	}
	if report != nil {
		report(row, n.world.activity())
	}
	return nil
}

// maxLate is the maximum delay of a step in real time. If a step is later, driver calls for a GPU wait for it.
// Otherwise the counter would stop and then jump, unlike the counter of a real board.
//
// The files of an AMD GPU cannot make a reader wait. On a busy machine their counters can stop and jump, and two files
// of a GPU may belong to different steps. Therefore a test in real time must look up an AMD counter by its value, not
// by the time of its reading.
const maxLate = 150 * time.Millisecond

// RunLive steps the node in real time until the context ends. The node's start time must come from the same clock.
func (n *Node) RunLive(ctx context.Context, clock gpu.Clock) error {
	if err := n.setLive(true); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return n.setLive(false)
		case <-time.After(n.due(clock())):
		}
		if err := n.Step(clock()); err != nil {
			return fmt.Errorf("step node: %w", err)
		}
	}
}

func (n *Node) setLive(live bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.live = live
	return n.publish()
}

func (n *Node) due(now gpu.Instant) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.world.elapsed() + step - now.Sub(n.world.start)
}

func (n *Node) apply(ch change) error {
	for _, p := range ch.endedPods {
		if err := n.end(p); err != nil {
			return fmt.Errorf("end pod %s: %w", p.name, err)
		}
	}
	for _, p := range ch.startedPods {
		if err := n.start(p); err != nil {
			return fmt.Errorf("start pod %s: %w", p.name, err)
		}
	}
	for _, p := range ch.endedProcesses {
		if err := n.endProcess(p); err != nil {
			return fmt.Errorf("end process %d: %w", p.id.PID, err)
		}
	}
	for _, p := range ch.startedProcesses {
		if err := n.startProcess(p); err != nil {
			return fmt.Errorf("start process %d: %w", p.id.PID, err)
		}
	}
	return nil
}

func (n *Node) start(p *pod) error {
	if u := p.spec.Unit; u != nil {
		return errors.Join(writeFiles(n.dir, u.Files), n.startProcesses(p))
	}
	for _, c := range p.containers {
		if err := n.logs.start(c); err != nil {
			return err
		}
	}
	return n.startProcesses(p)
}

func (n *Node) startProcesses(p *pod) error {
	for _, process := range p.all() {
		if err := n.startProcess(process); err != nil {
			return err
		}
	}
	return nil
}

// startProcess writes the process to /proc before the files of the drivers, which refer to it.
func (n *Node) startProcess(p *process) error {
	return errors.Join(n.proc.start(&n.world.scenario, p), n.amd.kfd.start(&n.world.scenario, p))
}

func (n *Node) endProcess(p *process) error {
	return errors.Join(n.amd.kfd.end(p), n.proc.end(p))
}

func (n *Node) end(p *pod) error {
	for _, process := range p.all() {
		if err := n.endProcess(process); err != nil {
			return err
		}
	}
	if u := p.spec.Unit; u != nil {
		return removeNodeFiles(n.dir, u.Files)
	}
	for _, c := range p.containers {
		if err := n.logs.end(c); err != nil {
			return err
		}
	}
	return nil
}

// publish updates the kubelet's pods, and starts or stops the kubelet if necessary. It writes the truth before the
// driver's state, so the truth already contains each counter value that the driver can report.
func (n *Node) publish() error {
	n.kubelet.set(n.world.pods, n.world.at)
	if err := n.kubelet.setRunning(n.world.kubelet); err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	if err := n.truth.flush(); err != nil {
		return fmt.Errorf("write truth: %w", err)
	}
	if err := n.writeModule(); err != nil {
		return fmt.Errorf("write the kernel module's version: %w", err)
	}
	if err := replaceFile(n.driverState(), driverState(n.world, n.engine, n.faults, n.live)); err != nil {
		return fmt.Errorf("write driver state: %w", err)
	}
	if err := n.amd.update(n.world, n.faults); err != nil {
		return fmt.Errorf("write the files of amdgpu: %w", err)
	}
	if err := n.proc.updateFiles(n.world); err != nil {
		return fmt.Errorf("write fdinfo: %w", err)
	}
	for _, log := range []string{n.driverCalls(), n.engineCalls()} {
		if info, err := os.Stat(log); err == nil && info.Size() > maxLog {
			if err := os.Truncate(log, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// SetFaults replaces all injected faults. The change takes effect immediately.
func (n *Node) SetFaults(faults ...Fault) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = slices.Clone(faults)
	return n.publish()
}

// SetEngine replaces the host engine.
func (n *Node) SetEngine(e Engine) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.engine = e
	return n.publish()
}

// ClearFaults removes all injected faults.
func (n *Node) ClearFaults() error { return n.SetFaults() }

// Happen schedules events at times relative to now. It drops the remaining events of the scenario.
func (n *Node) Happen(events ...Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.world.events = slices.Clone(events)
	for i := range n.world.events {
		n.world.events[i].At += n.world.elapsed()
	}
}

// Close stops the kubelet's servers. The files remain.
func (n *Node) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(n.kubelet.close(), n.truth.close(), n.amd.close())
}

// Dir returns the absolute path of the node's directory.
func (n *Node) Dir() string { return n.dir }

// Flags returns the exporter's flags for this node, except the flag that selects the driver library.
func (n *Node) Flags() []string {
	flags := []string{
		"--path.procfs=" + n.proc.dir,
		"--path.sysfs=" + filepath.Join(n.dir, "sys"),
		"--path.container-logs=" + n.logs.links,
		"--path.pod-logs=" + n.logs.pods,
		"--kubelet.pod-resources-socket=" + podResourcesSocket(n.dir),
		"--kubelet.pods-api-socket=" + podsAPISocket(n.dir),
		"--state.path=" + filepath.Join(n.dir, "state"),
		"--node.name=" + n.world.scenario.Node,
		"--sandbox=false", // in the sandbox the fake libraries cannot log their calls
	}
	if n.world.scenario.NoKubelet {
		flags[4] = "--kubelet.pod-resources-socket="
	}
	if n.world.scenario.hasGraphics() {
		flags = append(flags, "--amd.fdinfo")
	}
	if len(n.world.scenario.Units) > 0 {
		flags = append(flags, n.unitFlags()...)
	}
	return flags
}

// Env returns environment variables for a process that loads the fake driver libraries.
func (n *Node) Env() []string {
	return []string{
		"GPULEDGER_FAKE_NVML_STATE=" + n.driverState(),
		"GPULEDGER_FAKE_NVML_LOG=" + n.driverCalls(),
		"GPULEDGER_FAKE_NVML_DEVICES=" + n.Devices(),
		"GPULEDGER_FAKE_DCGM_STATE=" + n.driverState(),
		"GPULEDGER_FAKE_DCGM_LOG=" + n.engineCalls(),
	}
}

// EngineFlags returns additional flags that make the exporter read the node's DCGM host engine through the given fake
// library. This library accepts any address of an engine.
func (n *Node) EngineFlags(library string) []string {
	return []string{
		"--dcgm.address=127.0.0.1:5555", "--dcgm.library=" + library, "--dcgm.profiling", "--dcgm.fields=default",
	}
}

func (n *Node) driverState() string { return filepath.Join(n.dir, "driver", "state.tsv") }
func (n *Node) driverCalls() string { return filepath.Join(n.dir, "driver", "calls.tsv") }
func (n *Node) engineCalls() string { return filepath.Join(n.dir, "driver", "engine-calls.tsv") }
