package podmapper_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/podmapper"
)

// hangs puts a pipe in the place of a directory: who opens it waits, as for a disk that
// does not answer, until heal puts the directory back, empty.
func (n *node) hangs(dir string) (heal func()) {
	n.t.Helper()
	n.remove(dir)
	check(n.t, syscall.Mkfifo(n.path(dir), 0o644))
	heal = func() {
		for { // whoever waits goes on, with an error
			pipe, err := os.OpenFile(n.path(dir), os.O_WRONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				break
			}
			check(n.t, pipe.Close())
			time.Sleep(time.Millisecond)
		}
		n.remove(dir)
		check(n.t, os.MkdirAll(n.path(dir), 0o755))
	}
	return heal
}

// inTime fails the test if a tick's question waits for what hangs.
func (n *node) inTime(ask func()) {
	n.t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); ask() }()
	select {
	case <-done:
	case <-time.After(patience):
		n.t.Fatal("waits for the disk")
	}
}

// TestLogsHang: a disk that does not answer holds up neither the ticks nor the polls of
// the kubelet, and what is known stays.
func TestLogsHang(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.Poll = time.Second })
	n.serve(holds(holder(trainer, "", gpuA)))
	n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.start(11, 5, "python3", cgroupPath(sidecar, otherID))
	n.poll()
	heal := n.hangs("containers")

	polls := make(chan error, 1)
	go func() { polls <- n.Refresh(t.Context()) }()
	n.inTime(func() {
		for range 20 {
			wantOwner(t, n.process(10).Owner, trainer)
			n.process(11) // unknown: asks for a reading
			n.Allocations()
			n.pass(time.Second)
		}
	})
	n.inTime(func() {
		if err := <-polls; err == nil {
			t.Error("the poll says nothing of the disk")
		}
	})
	n.pollFails("timed out after 1s")
	n.wantStage(stage.ContainerLogs, false)
	n.wantStage(stage.PodResources, true)
	n.wantHeld(exclusive(gpuA, trainer, true))

	heal()
	n.link(trainer, id)
	n.link(sidecar, otherID)
	for n.Refresh(t.Context()) != nil { // the reading that hung ends first
		time.Sleep(time.Millisecond)
	}
	n.wantStage(stage.ContainerLogs, true)
	if got := n.process(11).Owner; got != sidecar {
		t.Errorf("owner = %v, want %v", got, sidecar)
	}
}

// TestUnknownContainerOnADiskThatHangs: the tick's own look at the logs has a limit.
func TestUnknownContainerOnADiskThatHangs(t *testing.T) {
	n := newNode(t)
	heal := n.hangs("containers")
	t.Cleanup(heal)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	began := time.Now()
	n.inTime(func() {
		for range 20 {
			wantOwner(t, n.process(10).Owner, pending)
			n.pass(time.Second)
		}
	})
	if took := time.Since(began); took >= 20*250*time.Millisecond {
		t.Errorf("20 ticks took %v; only the first may wait for 250ms", took)
	}
}

// TestPodLogsHang: so has its look into a pod's folder, for a container that has no link.
// The pod is known, and owns the process after five seconds.
func TestPodLogsHang(t *testing.T) {
	n := newNode(t, func(c *podmapper.Config) { c.PodLogs = filepath.Join(filepath.Dir(c.ContainerLogs), "pods") })
	n.serve(holds(holder(trainer, "", gpuA)))
	pod := "pods/ml-team_train-0_" + uid
	check(t, os.MkdirAll(n.path(pod+"/trainer"), 0o755))
	n.poll()
	t.Cleanup(n.hangs(pod))
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.inTime(func() {
		for i := range 20 {
			want := pending
			if i >= 5 {
				want = trainer.Group()
			}
			wantOwner(t, n.process(10).Owner, want)
			n.pass(time.Second)
		}
	})
}

// TestRunEndsWhileTheLogsHang: the program ends all the same.
func TestRunEndsWhileTheLogsHang(t *testing.T) {
	n := newNode(t)
	n.serve(holds())
	t.Cleanup(n.hangs("containers"))
	stop := n.run()
	n.inTime(stop)
	for _, s := range n.stages.Snapshot() {
		if s.Failures > 0 {
			t.Errorf("stage %s counts the end as a failure", s.Name)
		}
	}
}

// TestLogsFailForLong: what a pod that lives was given, and whose its new processes are, is
// known for as long as it lives; of others nothing is remembered.
func TestLogsFailForLong(t *testing.T) {
	n := newNode(t)
	n.serve(holds(holder(trainer, "", gpuA)))
	n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.poll()
	n.remove("containers")
	for range 60 {
		n.pass(10 * time.Second)
		n.pollFails("list container logs")
	}
	n.wantHeld(exclusive(gpuA, trainer, true))
	n.start(11, 5, "python3", cgroupPath(trainer, id))
	wantOwner(t, n.process(11).Owner, trainer)

	n.exit(10)
	n.exit(11)
	n.pass(6 * time.Minute) // since it was asked for
	n.pollFails("list container logs")
	n.start(12, 5, "python3", cgroupPath(trainer, id))
	wantOwner(t, n.process(12).Owner, pending)
}
