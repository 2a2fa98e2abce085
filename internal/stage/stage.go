// Package stage keeps the health of the things the exporter depends on: the
// driver, the kubelet, /proc and so on. A stage that fails is said once in the
// log, and again when it fails for another reason, and for as long as it lasts in the
// gpuledger_stage_* metrics. A stage that keeps going down and up is logged as up only
// once it stays up. Nothing here ever stops the exporter.
package stage

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Name is one of the closed list of stages.
type Name string

// The stages, in the order in which they are shown. [About] says what each is.
const (
	Driver        Name = "driver"
	DCGM          Name = "dcgm"
	XID           Name = "xid"
	PCI           Name = "pci"
	DMI           Name = "dmi"
	GPUProcesses  Name = "gpu_processes"
	Processes     Name = "processes"
	HostPIDs      Name = "host_pids"
	ContainerLogs Name = "container_logs"
	PodResources  Name = "pod_resources"
	PodsAPI       Name = "pods_api"
	State         Name = "state"
)

// Names lists every stage.
var Names = []Name{Driver, DCGM, XID, PCI, DMI, GPUProcesses, Processes, HostPIDs, ContainerLogs, PodResources, PodsAPI, State}

// About says what a stage is, for people who read its name for the first time. It is
// empty for a name that is not on the list.
func About(n Name) string {
	return map[Name]string{
		Driver:        "reading the GPUs",
		DCGM:          "reading a DCGM host engine, if named",
		XID:           "waiting for the driver's XID errors",
		PCI:           "counting the GPUs on the PCI bus",
		DMI:           "the machine's identity, by firmware",
		GPUProcesses:  "the driver's lists of processes",
		Processes:     "/proc: whose process is it",
		HostPIDs:      "/proc: are its PIDs the driver's",
		ContainerLogs: "names of containers, from their logs",
		PodResources:  "the kubelet: who holds which device",
		PodsAPI:       "the kubelet: which pods there are",
		State:         "the file that keeps the books",
	}[n]
}

// Set holds the health of every stage. It is safe for concurrent use.
type Set struct {
	log *slog.Logger
	now gpu.Clock

	mu     sync.Mutex
	stages map[Name]*health
}

// health is a stage, and what the log has of its outage. Times are on the boot clock.
type health struct {
	gpu.Stage
	said   map[string]bool // reasons, the latest; nil while the log has it as up
	saidAt time.Duration
	// unstable is set if the stage went down soon after the log had it as up again.
	unstable bool
	up       time.Duration // since when there was no failure
	upSaid   time.Duration // when the log last had it as up again; 0 for never
}

// ErrOversized is wrapped by the error of an input that exceeds a limit of the exporter,
// which keeps inputs from taking all memory.
var ErrOversized = errors.New("exceeds a limit of the exporter")

// sayEvery is how often the log is told another reason of one outage at most, and how long
// an unstable stage must stay up to be logged as up again.
const sayEvery = time.Minute

// maxSaid is how many reasons of an outage are remembered before all are forgotten.
const maxSaid = 100

// New returns a set in which no stage was tried yet.
func New(log *slog.Logger, now gpu.Clock) *Set {
	return &Set{log: log, now: now, stages: make(map[Name]*health)}
}

// Observe records one attempt, begun at the given moment, and logs if the stage
// went down, is down for another reason, or came back.
func (s *Set) Observe(name Name, began gpu.Instant, err error) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stages[name]
	if st == nil {
		st = &health{Stage: gpu.Stage{Name: string(name)}}
		s.stages[name] = st
	}
	wasUp := st.Up
	st.Up, st.Duration, st.Err = err == nil, now.Sub(began), ""
	if err != nil {
		st.Failures++
		if errors.Is(err, ErrOversized) {
			st.Oversized++
		}
		st.Err = strings.ReplaceAll(err.Error(), "\n", "; ") // joined errors are lines
		s.logFailure(st, now.Boot, err)
		return
	}
	st.LastSuccess = now.Wall
	if !wasUp {
		st.up = now.Boot
	}
	if st.said != nil && (!st.unstable || now.Boot-st.up >= sayEvery) {
		st.said, st.upSaid = nil, now.Boot
		s.log.Info("stage up again", "stage", name)
	}
}

// logFailure logs a reason that was not logged in this outage. Reasons that differ in numbers only,
// such as PIDs and times, are one.
func (s *Set) logFailure(st *health, now time.Duration, err error) {
	reason := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, st.Err)
	again := false
	switch {
	case st.said == nil:
		st.said = make(map[string]bool)
		st.unstable = st.upSaid > 0 && now-st.upSaid < sayEvery
		again = st.unstable
	case st.said[reason] || now-st.saidAt < sayEvery:
		return
	case len(st.said) >= maxSaid:
		clear(st.said)
	}
	st.said[reason], st.saidAt = true, now
	if again {
		s.log.Warn("stage down again, will be logged as up after a minute without failures", "stage", st.Name, "err", err)
		return
	}
	s.log.Warn("stage down, will keep trying", "stage", st.Name, "err", err)
}

// Snapshot returns the stages that were tried, in the order of [Names].
func (s *Set) Snapshot() []gpu.Stage {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]gpu.Stage, 0, len(s.stages))
	for _, n := range Names {
		if st := s.stages[n]; st != nil {
			out = append(out, st.Stage)
		}
	}
	return out
}
