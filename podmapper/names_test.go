package podmapper_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/podmapper"
)

// TestUnknownContainersAreLimited checks that the mapper reads the directory again for an unknown container, and that
// it limits the rate of these reads.
func TestUnknownContainersAreLimited(t *testing.T) {
	n := newNode(t)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	for range 10 {
		wantOwner(t, n.process(10).Owner, pending)
	}
	n.link(trainer, id)
	wantOwner(t, n.process(10).Owner, pending)
	n.pass(time.Second)
	wantOwner(t, n.process(10).Owner, trainer)
}

func TestNamesOfADeletedPodAreKept(t *testing.T) {
	n := newNode(t)
	n.serve(holds())
	link := n.link(trainer, id)
	n.poll()
	n.remove(link)
	n.pass(4 * time.Minute)
	n.poll()
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	wantOwner(t, n.process(10).Owner, trainer)

	n.pass(6 * time.Minute)
	n.poll()
	n.start(10, 6, "python3", cgroupPath(trainer, id))
	wantOwner(t, n.process(10).Owner, pending)
}

// TestCutLink checks truncated links, in which the container id is incomplete or missing. Twelve digits of the id must
// suffice. With fewer digits, the container must stay unknown even if no other link exists, because the pod may have
// other containers.
func TestCutLink(t *testing.T) {
	sameStart := id[:12] + otherID[12:]
	pod := func(digits int, c gpu.Owner) gpu.Owner {
		c.Name = strings.Repeat("p", 251-digits-len("_ml-team_trainer-"))
		return c
	}
	type link struct {
		container gpu.Owner
		id        string
	}
	tests := []struct {
		name   string
		links  []link
		cgroup string
		want   gpu.Owner
	}{
		{"12 digits", []link{{pod(12, trainer), id}}, cgroupPath(trainer, id), pod(12, trainer)},
		{"63 digits", []link{{pod(63, trainer), id}}, cgroupPath(trainer, id), pod(63, trainer)},
		{"beside a second container", []link{{pod(12, sidecar), otherID}, {pod(12, trainer), id}}, cgroupPath(trainer, id), pod(12, trainer)},
		{"pod not visible", []link{{pod(12, trainer), id}}, "/../" + id, pod(12, trainer)},
		{"similar pods", []link{{pod(12, reborn), sameStart}, {pod(13, trainer), id}}, cgroupPath(trainer, id), pod(13, trainer)},

		{"11 digits", []link{{pod(11, trainer), id}}, cgroupPath(trainer, id), pending},
		{"no digits", []link{{pod(0, trainer), id}}, cgroupPath(trainer, id), pending},
		{"no digits, second container", []link{{pod(-2, sidecar), otherID}}, cgroupPath(trainer, id), pending},
		{"other digits", []link{{pod(12, trainer), otherID}}, cgroupPath(trainer, id), pending},
		{"similar containers", []link{{pod(12, trainer), id}, {pod(12, sidecar), sameStart}}, cgroupPath(trainer, id), pending},
		{"similar pods, not visible", []link{{pod(12, trainer), id}, {pod(13, reborn), id}}, "/../" + id, pending},
		{"another pod", []link{{pod(12, reborn), id}}, cgroupPath(trainer, id), pending},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			for _, l := range tt.links {
				n.link(l.container, l.id)
			}
			n.start(10, 5, "python3", tt.cgroup)
			wantOwner(t, n.process(10).Owner, tt.want)
		})
	}
}

// TestOnlyPodKnown checks a process with an unknown container. After five seconds, the process must be attributed to
// its pod. When its container becomes known, the process must be attributed to the container.
func TestOnlyPodKnown(t *testing.T) {
	long := trainer
	long.Name, long.Part = strings.Repeat("p", 210), strings.Repeat("c", 28)
	logs := func(c gpu.Owner) func(*node) {
		return func(n *node) {
			check(n.t, os.MkdirAll(n.path("pods/"+c.Scope+"_"+c.Name+"_"+c.UID+"/"+c.Part), 0o755))
		}
	}
	tests := []struct {
		name    string
		prepare func(*node)
		cgroup  string
		want    gpu.Owner
	}{
		{"cut link", func(n *node) { n.link(long, id) }, cgroupPath(long, id), long.Group()},
		{"link of another container", func(n *node) { n.link(sidecar, otherID) }, cgroupPath(trainer, id), trainer.Group()},
		{"directory of logs", logs(long), cgroupPath(long, id), long.Group()},
		{"no container in the cgroup", func(n *node) { n.link(sidecar, otherID) }, "/kubepods/pod" + uid, trainer.Group()},
		{"another pod", logs(reborn), cgroupPath(trainer, id), pending},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, func(c *podmapper.Config) { c.PodLogs = filepath.Join(filepath.Dir(c.ContainerLogs), "pods") })
			n.serve(holds(holder(trainer, "", gpuA)))
			tt.prepare(n)
			n.poll()
			n.start(10, 5, "python3", tt.cgroup)
			p := n.process(10)
			n.pass(4 * time.Second)
			wantOwner(t, n.Owner(p.ID), gpu.Owner{})
			n.pass(time.Second)
			wantOwner(t, n.Owner(p.ID), tt.want)
			wantOwner(t, n.process(10).Owner, tt.want)
		})
	}
}

func TestContainerKnownLater(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(trainer, "", gpuA)))
	n.link(sidecar, otherID)
	n.poll()
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.process(10)
	n.pass(5 * time.Second)
	wantOwner(t, n.process(10).Owner, trainer.Group())
	n.link(trainer, id)
	n.poll()
	wantOwner(t, n.process(10).Owner, trainer)
}

func TestPodIsKept(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(trainer, "", gpuA)))
	link := n.link(sidecar, otherID)
	n.poll()
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.process(10)
	n.pass(5 * time.Second)
	wantOwner(t, n.process(10).Owner, trainer.Group())
	n.remove(link)
	n.exit(10)
	for range 12 {
		n.pass(time.Minute)
		n.start(10, 5, "python3", cgroupPath(trainer, id))
		n.process(10)
		n.exit(10) // while this process runs, the names of the pod stay known
		n.poll()
	}
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	wantOwner(t, n.process(10).Owner, trainer.Group())
}

func TestNoContainerLogs(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(trainer, "", gpuA)))
	n.remove("containers")
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.pollFails("list container logs")
	n.wantStage(stage.ContainerLogs, false)
	n.wantStage(stage.PodResources, true)
	wantOwner(t, n.process(10).Owner, pending)
	anonymous := exclusive(gpuA, trainer, false)
	anonymous.Owner.UID = ""
	n.wantHeld(anonymous)
}
