package amd

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// A moment is the use of a GPU at a random time between two readings.
type moment struct {
	at time.Duration // boot clock
	// units contains the number of occupied compute units by PID.
	units map[uint32]value
	// activity is the firmware's average in percent. It is not read if gpu_metrics contains sums of activity.
	activity value
}

// Run reads the occupancy of processes once after each [Source.Read], at a random moment within a tick. It returns when
// the context ends. Without Run, each Read reads the occupancy itself. A process could then hide its work by working
// only between the ticks.
func (s *Source) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.ticked:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rand.N(s.cfg.Tick)):
		}
		s.observe()
	}
}

func (s *Source) observe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for _, x := range s.slots {
		if !x.present || x.moment.Busy() || x.device.UUID == "" || x.device.Partitions != nil {
			continue
		}
		cfg, folder, nodes, summed := s.cfg, x.folder, x.nodes, x.summed
		x.moment.Begin(func() moment { return readMoment(cfg, folder, nodes, summed) })
	}
}

// units is nil in the result if the processes cannot be listed.
func readMoment(cfg Config, folder string, nodes []node, summed bool) moment {
	m := moment{at: cfg.Now().Boot}
	root := filepath.Join(cfg.Sys, "class/kfd/kfd/proc")
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) > maxProcesses {
		return m
	}
	m.units = make(map[uint32]value, len(entries))
	for _, e := range entries {
		pid, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil || pid == 0 {
			continue
		}
		m.units[uint32(pid)] = readUnits(filepath.Join(root, e.Name()), nodes)
	}
	if !summed {
		m.activity = readAverage(folder)
	}
	return m
}

func readUnits(folder string, nodes []node) (units value) {
	for _, n := range nodes {
		if occupied, err := readNumber(folder, "stats_"+n.id, "cu_occupancy"); err == nil {
			units.n, units.ok = units.n+min(occupied, maxUnits), true
		}
	}
	return units
}

func readAverage(folder string) value {
	if file, err := readFile(folder, "gpu_metrics"); err == nil {
		if m, err := decode(file); err == nil && m.activity.ok {
			return m.activity
		}
	}
	n, err := readNumber(folder, "gpu_busy_percent")
	return value{n, err == nil && n <= 100}
}

func (x *slot) takeMoment() *moment {
	if !x.moment.Busy() {
		return nil
	}
	m, ok := x.moment.Poll()
	if !ok || m.units == nil || m.at <= x.reader.last.at.Boot {
		return nil
	}
	return &m
}
