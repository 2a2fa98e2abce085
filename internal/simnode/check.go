package simnode

import (
	"errors"
	"fmt"
	"slices"
)

// validate reports what the model cannot represent.
func (sc *Scenario) validate() error {
	if len(sc.Daemons) == 0 {
		return errors.New("no daemons: somebody must be PID 1")
	}
	busy := make(map[Device]int) // percent
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

func (sc *Scenario) checkPod(p *Pod, busy map[Device]int) error {
	for _, c := range p.Containers {
		devices := slices.Clone(c.Devices)
		for _, i := range c.Claims {
			if i < 0 || i >= len(sc.Claims) {
				return fmt.Errorf("container %s: no claim %d", c.Name, i)
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

// checkProcess checks a process that lives for a span, and adds up how busy
// processes can keep the whole of a GPU, or an instance.
func (sc *Scenario) checkProcess(p Process, life Span, busy map[Device]int) error {
	if len(p.Comm) > 15 {
		return fmt.Errorf("process %q: name is longer than 15 bytes", p.Comm)
	}
	for _, w := range p.Work {
		d := Device{w.GPU, w.Instance}
		if err := sc.checkDevice(d, life); err != nil {
			return fmt.Errorf("process %q: %w", p.Comm, err)
		}
		if w.Instance != 0 && sc.GPUs[w.GPU].MIG == nil {
			return fmt.Errorf("process %q: GPU %d is not divided", p.Comm, w.GPU)
		}
		if busy[d] += max(w.Load.Low, w.Load.High); busy[d] > 100 {
			return fmt.Errorf("GPU %d can be %d %% busy", w.GPU, busy[d])
		}
	}
	return nil
}

// checkDevice checks that a device exists for a span.
func (sc *Scenario) checkDevice(d Device, life Span) error {
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
	if life.From < there.From || there.Until != 0 && (life.Until == 0 || life.Until > there.Until) {
		return fmt.Errorf("GPU %d: instance %d is not there all the time", d.GPU, d.Part)
	}
	return nil
}
