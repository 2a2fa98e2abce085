package simnode

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Only the processes of a pod change after its creation.
type pod struct {
	spec       *Pod
	generation int // number of earlier pods that this pod has replaced
	startStep  int64
	name, uid  string
	pause      *process // nil for a unit
	containers []*container
}

type container struct {
	gpu.Owner
	spec      *Container
	id        string // 64 hex digits
	processes []*process
}

type process struct {
	id        gpu.ProcessID
	parent    uint32
	comm      string
	cgroup    string
	title     string
	uid       int
	owner     gpu.Owner // zero for a process on the host
	work      []Work
	startStep int64         // step in which the process started
	lifetime  time.Duration // zero if it has no limit
	// rendered contains the graphics busy time of the process on each AMD GPU, by position.
	rendered map[int]time.Duration
}

// began is a time on the boot clock.
func (w *world) newPod(spec *Pod, generation int, began time.Duration) *pod {
	if spec.Unit != nil {
		return w.newUnit(spec, generation, began)
	}
	p := &pod{spec: spec, generation: generation, startStep: w.steps, name: spec.Name}
	if spec.Lifetime > 0 {
		p.name = fmt.Sprintf("%s-%d", spec.Name, generation)
	}
	p.uid = uuid(w.scenario.Name, spec.Namespace, p.name)
	shim := w.spawn(process{parent: 1, comm: "containerd-shim", cgroup: "/system.slice/containerd.service"}, began)
	p.pause = w.spawn(process{parent: shim.id.PID, comm: "pause", cgroup: cgroupPath(spec.QoS, p.uid, hexID(p.uid))}, began)
	for i := range spec.Containers {
		p.containers = append(p.containers, w.newContainer(p, &spec.Containers[i], began))
	}
	return p
}

// A unit is a pod with one container and without a pause process.
func (w *world) newUnit(spec *Pod, generation int, began time.Duration) *pod {
	u := spec.Unit
	c := &container{Owner: u.Owner(), spec: &spec.Containers[0]}
	for _, s := range u.Processes {
		c.processes = append(c.processes, w.spawn(process{
			parent: 1, comm: s.Comm, cgroup: u.cgroup(s.Below), title: s.Title, uid: s.UID, owner: c.Owner, work: s.Work, lifetime: s.Lifetime,
		}, began))
	}
	return &pod{spec: spec, generation: generation, startStep: w.steps, name: spec.Name, containers: []*container{c}}
}

func (w *world) newContainer(p *pod, spec *Container, began time.Duration) *container {
	c := &container{
		Owner: gpu.Owner{Kind: gpu.OwnerPod, Scope: p.spec.Namespace, Name: p.name, UID: p.uid, Part: spec.Name},
		spec:  spec,
		id:    hexID(p.uid, spec.Name),
	}
	for _, s := range spec.Processes {
		c.processes = append(c.processes, w.spawn(process{
			parent: p.pause.parent, comm: s.Comm, cgroup: cgroupPath(p.spec.QoS, p.uid, c.id) + s.Below,
			owner: c.Owner, work: s.Work, lifetime: s.Lifetime,
		}, began))
	}
	return c
}

// The start time is in hundredths of a second since boot.
func (w *world) spawn(p process, began time.Duration) *process {
	p.startStep, p.rendered = w.steps, nil
	p.id = gpu.ProcessID{PID: w.nextPID, Start: uint64(began / (10 * time.Millisecond))}
	if w.nextPID += 1 + w.random.Uint32N(40); w.nextPID >= 1<<22 {
		w.nextPID = 10_000
	}
	return &p
}

// all includes the pause process.
func (p *pod) all() []*process {
	var all []*process
	if p.pause != nil {
		all = append(all, p.pause)
	}
	for _, c := range p.containers {
		all = append(all, c.processes...)
	}
	return all
}

// cgroupPath returns the path that the systemd driver and containerd create in the unified hierarchy.
func cgroupPath(qos, uid, id string) string {
	slice, parent := "kubepods", "/kubepods.slice/"
	if qos != "" {
		slice += "-" + qos
		parent += slice + ".slice/"
	}
	return parent + slice + "-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/cri-containerd-" + id + ".scope"
}
