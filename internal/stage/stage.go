// Package stage records the health of the exporter's dependencies, such as the driver, the kubelet and /proc. It logs a
// failure once, and again if the reason changes. The metrics gpuledger_stage_* show the failure as long as it lasts. A
// stage that alternates between down and up is logged as up only after a minute without failures. No failure stops the
// exporter.
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

// Name identifies a stage.
type Name string

// The stages, in the order in which they are displayed. [About] describes them.
const (
	Driver        Name = "driver"
	AMDGPU        Name = "amdgpu"
	DCGM          Name = "dcgm"
	Release       Name = "release"
	XID           Name = "xid"
	KernelLog     Name = "kernel_log"
	PCI           Name = "pci"
	DMI           Name = "dmi"
	GPUProcesses  Name = "gpu_processes"
	Processes     Name = "processes"
	HostPIDs      Name = "host_pids"
	ContainerLogs Name = "container_logs"
	PodResources  Name = "pod_resources"
	PodsAPI       Name = "pods_api"
	Units         Name = "units"
	State         Name = "state"
)

// Names contains all stages.
var Names = []Name{Driver, AMDGPU, DCGM, Release, XID, KernelLog, PCI, DMI, GPUProcesses, Processes, HostPIDs, ContainerLogs, PodResources, PodsAPI, Units, State}

// About describes a stage. It returns an empty string for an unknown name.
func About(n Name) string {
	return map[Name]string{
		Driver:        "reads NVIDIA's GPUs",
		AMDGPU:        "reads AMD's GPUs (experimental)",
		DCGM:          "reads the DCGM host engine, if configured",
		Release:       "closed the driver on request (gpuledger release)",
		XID:           "receives XID errors from the driver",
		KernelLog:     "reads XID and SXID errors from the kernel's log, if enabled",
		PCI:           "counts GPUs on the PCI bus",
		DMI:           "reads the machine's identity from its firmware",
		GPUProcesses:  "lists the processes on the GPUs",
		Processes:     "finds the owner of each process in /proc",
		HostPIDs:      "checks that /proc shows the driver's PIDs",
		ContainerLogs: "reads container names from log paths",
		PodResources:  "lists allocations from the kubelet",
		PodsAPI:       "lists pods from the kubelet",
		Units:         "finds jobs, containers and the GPUs that they hold",
		State:         "saves the books",
	}[n]
}

// Set contains the health of every stage. It is safe for concurrent use.
type Set struct {
	log *slog.Logger
	now gpu.Clock

	mu     sync.Mutex
	stages map[Name]*health
}

// Times are on the boot clock.
type health struct {
	gpu.Stage
	logged   map[string]bool // reasons that were logged in the latest outage; nil after the stage was logged as up
	loggedAt time.Duration
	// unstable is set if the stage failed again soon after it was logged as up.
	unstable bool
	up       time.Duration // first success after the latest failure
	upLogged time.Duration // time of the last "up again" message, or 0
}

// ErrOversized is in the error chain if an input exceeds a limit that bounds the exporter's use of memory.
var ErrOversized = errors.New("the input exceeds a limit of the exporter")

// logEvery is the minimum interval between two log messages about one outage. It is also the time for which an unstable
// stage must stay up before it is logged as up.
const logEvery = time.Minute

// maxLogged limits the logged reasons that are remembered for an outage.
const maxLogged = 100

// New returns a set in which no attempt is recorded.
func New(log *slog.Logger, now gpu.Clock) *Set {
	return &Set{log: log, now: now, stages: make(map[Name]*health)}
}

// Observe records an attempt that began at the given time. It logs a message if the stage failed, if the reason
// changed, or if the stage recovered.
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
		st.Err = strings.ReplaceAll(err.Error(), "\n", "; ") // joined errors are separated by newlines
		s.logFailure(st, now.Boot, err)
		return
	}
	st.LastSuccess = now.Wall
	if !wasUp {
		st.up = now.Boot
	}
	if st.logged != nil && (!st.unstable || now.Boot-st.up >= logEvery) {
		st.logged, st.upLogged = nil, now.Boot
		s.log.Info("stage up again", "stage", name)
	}
}

// Reasons that differ only in numbers, such as PIDs and times, count as one reason.
func (s *Set) logFailure(st *health, now time.Duration, err error) {
	reason := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, st.Err)
	again := false
	switch {
	case st.logged == nil:
		st.logged = make(map[string]bool)
		st.unstable = st.upLogged > 0 && now-st.upLogged < logEvery
		again = st.unstable
	case st.logged[reason] || now-st.loggedAt < logEvery:
		return
	case len(st.logged) >= maxLogged:
		clear(st.logged)
	}
	st.logged[reason], st.loggedAt = true, now
	if again {
		s.log.Warn("stage down again, will be logged as up after a minute without failures", "stage", st.Name, "err", err)
		return
	}
	s.log.Warn("stage down, will retry", "stage", st.Name, "err", err)
}

// Forget removes a stage that the exporter no longer attempts.
func (s *Set) Forget(name Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stages, name)
}

// Snapshot returns the stages with at least one attempt, in the order of [Names].
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
