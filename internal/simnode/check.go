package simnode

import (
	"errors"
	"fmt"
	"slices"
)

// validate returns an error if the model cannot represent a scenario.
func (sc *Scenario) validate() error {
	if len(sc.Daemons) == 0 {
		return errors.New("no daemons: a scenario must have a PID 1")
	}
	for i := range sc.GPUs {
		if err := sc.GPUs[i].checkAMD(); err != nil {
			return err
		}
	}
	for _, e := range sc.Events {
		if e.Do == FallOff && sc.GPUs[e.GPU].AMD != nil {
			return fmt.Errorf("GPU %d: an AMD GPU cannot fall off the bus", e.GPU)
		}
	}
	busy := make(busyTimes)
	for _, d := range sc.Daemons {
		if err := sc.checkProcess(d.Process, Span{}, busy); err != nil {
			return err
		}
	}
	for i := range sc.Pods {
		if err := sc.checkPod(&sc.Pods[i], busy); err != nil {
			return fmt.Errorf("pod %s/%s: %w", sc.Pods[i].Namespace, sc.Pods[i].Name, err)
		}
	}
	return nil
}

func (sc *Scenario) checkPod(p *Pod, busy busyTimes) error {
	for _, c := range p.Containers {
		devices := slices.Clone(c.Devices)
		for _, i := range c.Claims {
			if i < 0 || i >= len(sc.Claims) {
				return fmt.Errorf("container %s: claim %d does not exist", c.Name, i)
			}
			devices = append(devices, sc.Claims[i].Devices...)
		}
		for _, d := range devices {
			if err := sc.checkDevice(d, p.Span); err != nil {
				return fmt.Errorf("container %s: %w", c.Name, err)
			}
		}
		for _, process := range c.Processes {
			if err := sc.checkProcess(process, p.Span, busy); err != nil {
				return err
			}
		}
	}
	return nil
}

// busyTimes contains the spans of the processes on each GPU or instance, with the maximum activity in each span.
type busyTimes map[Device][]busyTime

type busyTime struct {
	Span
	percent int
}

// most returns the maximum total activity on a device in percent. The total rises only at the beginnings of spans, so
// most checks only these times.
func (b busyTimes) most(d Device) (most int) {
	for _, begins := range b[d] {
		sum := 0
		for _, other := range b[d] {
			if other.covers(begins.From) {
				sum += other.percent
			}
		}
		most = max(most, sum)
	}
	return most
}

// checkProcess checks a process that exists during a span. It adds the process's maximum activity on each GPU or
// instance to busy.
func (sc *Scenario) checkProcess(p Process, span Span, busy busyTimes) error {
	if len(p.Comm) > 15 {
		return fmt.Errorf("process %q: name is longer than 15 bytes", p.Comm)
	}
	for _, w := range p.Work {
		d := Device{w.GPU, w.Instance}
		if err := sc.checkDevice(d, span); err != nil {
			return fmt.Errorf("process %q: %w", p.Comm, err)
		}
		if w.Instance != 0 && sc.GPUs[w.GPU].MIG == nil {
			return fmt.Errorf("process %q: GPU %d is not divided", p.Comm, w.GPU)
		}
		busy[d] = append(busy[d], busyTime{span, max(w.Load.Low, w.Load.High)})
		if most := busy.most(d); most > 100 {
			return fmt.Errorf("the processes on GPU %d can make it %d %% busy, must be at most 100 %%", w.GPU, most)
		}
	}
	return nil
}

// The device must exist during the whole span.
func (sc *Scenario) checkDevice(d Device, span Span) error {
	if d.GPU < 0 || d.GPU >= len(sc.GPUs) {
		return fmt.Errorf("no GPU %d", d.GPU)
	}
	g := &sc.GPUs[d.GPU]
	if d.Part < 0 || d.Part >= g.partCount() {
		return fmt.Errorf("GPU %d has no part %d", d.GPU, d.Part)
	}
	if g.MIG == nil {
		return nil
	}
	there := g.MIG.Instances[d.Part].Span
	if span.From < there.From || there.Until != 0 && (span.Until == 0 || span.Until > there.Until) {
		return fmt.Errorf("GPU %d: instance %d does not exist during the whole life of the pod", d.GPU, d.Part)
	}
	return nil
}
