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

// hangs replaces a directory with a pipe. Opening the pipe blocks, like opening a directory on a disk that does not
// respond. The returned function heal replaces the pipe with an empty directory.
func (n *node) hangs(dir string) (heal func()) {
	n.t.Helper()
	n.remove(dir)
	check(n.t, syscall.Mkfifo(n.path(dir), 0o644))
	heal = func() {
		for { // a blocked reader gets an error and continues
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

// inTime fails the test if a call of the sampler blocks because the disk hangs.
func (n *node) inTime(call func()) {
	n.t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); call() }()
	select {
	case <-done:
	case <-time.After(hangTimeout):
		n.t.Fatal("the call waits for the disk")
	}
}

// TestLogsHang checks a disk that does not respond. It must not delay the ticks and the polls of the kubelet, and known
// containers must be kept.
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
			n.process(11) // the process is unknown, so the mapper reads the directory
			n.Allocations()
			n.pass(time.Second)
		}
	})
	n.inTime(func() {
		if err := <-polls; err == nil {
			t.Error("the poll does not report the disk")
		}
	})
	n.pollFails("timed out after 1s")
	n.wantStage(stage.ContainerLogs, false)
	n.wantStage(stage.PodResources, true)
	n.wantHeld(exclusive(gpuA, trainer, true))

	heal()
	n.link(trainer, id)
	n.link(sidecar, otherID)
	for n.Refresh(t.Context()) != nil { // Refresh fails until the hanging read has ended
		time.Sleep(time.Millisecond)
	}
	n.wantStage(stage.ContainerLogs, true)
	if got := n.process(11).Owner; got != sidecar {
		t.Errorf("owner = %v, want %v", got, sidecar)
	}
}

// TestUnknownContainerOnADiskThatHangs checks that a tick waits for the log links only until a timeout.
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

// TestPodLogsHang checks a container without a link, for which the mapper reads the log directory of the pod. A tick
// must not exceed the timeout, and the process must be attributed to its pod after five seconds.
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

func TestRunEndsWhileTheLogsHang(t *testing.T) {
	n := newNode(t)
	n.serve(holds())
	t.Cleanup(n.hangs("containers"))
	stop := n.run()
	n.inTime(stop)
	for _, s := range n.stages.Snapshot() {
		if s.Failures > 0 {
			t.Errorf("stage %s counts the shutdown as a failure", s.Name)
		}
	}
}

// TestLogsFailForLong checks the mapper while the log directories cannot be read for several minutes. The allocations
// and containers of a live pod must stay known, and ended pods must be dropped.
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
	n.pass(6 * time.Minute) // names are dropped five minutes after their last use
	n.pollFails("list container logs")
	n.start(12, 5, "python3", cgroupPath(trainer, id))
	wantOwner(t, n.process(12).Owner, pending)
}
