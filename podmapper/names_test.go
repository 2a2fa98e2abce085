package podmapper_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// An unknown container makes the directory be read at once, but not without end.
func TestUnknownContainersAreLimited(t *testing.T) {
	n := newNode(t)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	for range 10 {
		wantOwner(t, n.process(10).Owner, pending)
	}
	n.link(trainer, id)
	wantOwner(t, n.process(10).Owner, pending)
	n.pass(time.Second)
	wantOwner(t, n.process(10).Owner, trains)
}

func TestNamesOfADeletedPodAreKept(t *testing.T) {
	n := newNode(t)
	n.serve(holds())
	link := n.link(trainer, id)
	n.poll()
	n.remove(link)
	n.pass(14 * time.Minute)
	n.poll()
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	wantOwner(t, n.process(10).Owner, trains)

	n.pass(16 * time.Minute)
	n.poll()
	n.start(10, 6, "python3", cgroupPath(trainer, id))
	wantOwner(t, n.process(10).Owner, pending)
}

// A link whose name was cut has lost its container's id; the pod must have no
// other container.
func TestCutLink(t *testing.T) {
	long := trainer
	long.Pod = strings.Repeat("p", 220)
	other := long
	other.Container = "other"

	n := newNode(t)
	n.link(long, id)
	n.start(10, 5, "python3", cgroupPath(long, id))
	owner := gpu.Owner{Kind: gpu.OwnerContainer, Container: long, ContainerID: id}
	wantOwner(t, n.process(10).Owner, owner)

	n.start(11, 5, "python3", cgroupPath(long, otherID)) // does not begin like the link's
	wantOwner(t, n.process(11).Owner, gpu.Owner{ContainerID: otherID})

	m := newNode(t)
	m.link(long, id)
	m.link(other, otherID)
	m.start(10, 5, "python3", cgroupPath(long, id))
	wantOwner(t, m.process(10).Owner, pending)
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
	anonymous.Container.PodUID = ""
	n.wantHeld(anonymous)
}
