package unit

import (
	"cmp"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/owner"
	"github.com/gpuledger/gpuledger/internal/proc"
)

// parented returns a name in a cgroup file that looks like a container id, or "". Docker and Podman can place
// containers below any cgroup of root, for example with --cgroup-parent=/ml. Therefore the caller must check whether an
// engine lists a container with this id.
//
// The result is "" if lines of the file contain different ids. It is also "" for processes of pods, users, other units
// and virtual machines, because their owners can choose the names below their own cgroup.
func (p *parser) parented(file string) (id string) {
	for segments, err := range proc.Paths(file) {
		if err != nil {
			return ""
		}
		m, inPod := p.parsePath(segments)
		if inPod {
			return ""
		}
		if m.manager != "" {
			continue
		}
		found := parentedIn(segments)
		if found != "" && id != "" && found != id {
			return ""
		}
		id = cmp.Or(id, found)
	}
	return id
}

// parentedIn returns the first container id in a path, or "". Above the id, the path may contain slices, but no other
// systemd units and no machines.
func parentedIn(segments []string) string {
	for i, s := range segments {
		if i > 0 && segments[i-1] == "libpod_parent" && proc.IsContainerID(s) {
			continue // the id belongs to a pod of Podman
		}
		if id := strings.TrimPrefix(s, "libpod-"); proc.IsContainerID(id) {
			return strings.Clone(id)
		}
		isUnit := strings.HasSuffix(s, ".scope") || strings.HasSuffix(s, ".service")
		if isUnit || proc.IsUserSlice(s) || s == "machine.slice" || s == "lxc" || strings.HasPrefix(s, "lxc.") {
			return ""
		}
	}
	return ""
}

// ofEngine returns the id from [parser.parented] if the process may belong to an engine. It returns "" if the process
// belongs to a unit of a manager other than systemd, because this manager takes precedence.
func (m *Mapper) ofEngine(c match, ok bool, cgroup string) string {
	if ok && c.manager != Systemd || !m.enabled(Docker) && !m.enabled(Podman) {
		return ""
	}
	return m.parser.parented(cgroup)
}

// resolveParented returns a function that resolves the current owner of a process in a cgroup with an id from
// [parser.parented]. If an engine lists a container with this id, the owner is the container. Otherwise instead
// determines the owner. If instead is nil, the owner is the host.
func (m *Mapper) resolveParented(id string, p owner.Process, instead func() owner.Answer) func() owner.Answer {
	first := p.First
	return func() owner.Answer {
		m.mu.Lock()
		engine := m.engines[id]
		m.mu.Unlock()
		switch {
		case engine != "":
			return m.answer(match{manager: engine, id: id}, first)
		case m.cfg.Now().Boot-first < nameAfter:
			m.requestPoll()
			return owner.Answer{ContainerID: id}
		case instead != nil:
			return instead()
		}
		return owner.Answer{Owner: gpu.Owner{Kind: gpu.OwnerHost}, ContainerID: id, Final: true}
	}
}

func (m *Mapper) answer(c match, first time.Duration) owner.Answer {
	u, known := m.unit(c, first)
	if !known {
		return owner.Answer{ContainerID: c.container()}
	}
	return owner.Answer{Owner: u.Owner(), ContainerID: c.container(), Final: true}
}

// A podmanList reads Podman's containers at its first call. Later calls return the same result.
type podmanList func() (map[string]container, error)

// read returns a container without a name if Podman does not list the container.
func (l podmanList) read(m *Mapper, id string) (container, error) {
	all, err := l()
	c := all[id]
	if c.name != "" {
		c.devices, err = readPodmanDevices(m.cfg.PodmanRoots, id, m.cfg.ProcFS)
	}
	return c, err
}

// readParented returns no error if no engine lists the container.
func (m *Mapper) readParented(id string, podman podmanList) (c container, err error) {
	if m.enabled(Docker) {
		if c, err = readDocker(m.cfg.DockerRoot, id); err == nil || c.name != "" || !errors.Is(err, fs.ErrNotExist) {
			return c, err
		}
	}
	if !m.enabled(Podman) {
		return container{}, nil
	}
	if c, err = podman.read(m, id); c.name == "" && errors.Is(err, fs.ErrNotExist) {
		err = nil // Podman is not installed
	}
	return c, err
}

// adopt adds live containers to the units as soon as their engine is known.
func (l live) adopt(containers map[string]container) {
	for id, processes := range l.parented {
		if c := containers[id]; c.manager != "" {
			l.units[match{manager: c.manager, id: id}] = processes
		}
	}
}

// newContainers returns the manager of each live container for which no files were read yet, by id.
func (m *Mapper) newContainers(found live) map[string]string {
	ids := make(map[string]string)
	for u := range found.units {
		if id := u.container(); id != "" && u.account == "" && m.enabled(u.manager) {
			if _, known := m.containers[id]; !known {
				ids[id] = u.manager
			}
		}
	}
	for id := range found.parented {
		if _, known := m.containers[id]; !known {
			ids[id] = "" // the engine is not known yet
		}
	}
	return ids
}

// If no file describes a container, its id becomes its name. For example, the container may belong to another engine.
func (m *Mapper) readContainers(ids map[string]string) (map[string]container, error) {
	out := make(map[string]container, len(ids))
	podman := podmanList(sync.OnceValues(func() (map[string]container, error) { return readPodman(m.cfg.PodmanRoots, ids) }))
	var first error
	for id, manager := range ids {
		var c container
		var err error
		switch manager {
		case Docker:
			c, err = readDocker(m.cfg.DockerRoot, id)
		case Nerdctl:
			c, err = readNerdctl(m.cfg.ContainerdRun, id, m.cfg.ProcFS)
		case "":
			if c, err = m.readParented(id, podman); c.manager == "" && err == nil {
				continue
			}
		default:
			c, err = podman.read(m, id)
		}
		if err != nil && c.name == "" {
			first = cmp.Or(first, err)
			continue
		}
		out[id] = c.checked()
	}
	return out, first
}
