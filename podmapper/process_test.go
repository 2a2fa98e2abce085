package podmapper_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

const (
	uid      = "3f1c2b9a-7d54-4e0b-9c66-0a1b2c3d4e5f"
	otherUID = "8a0e6d11-52c7-4f3e-b1aa-77c0ffee0001"
)

var (
	id      = strings.Repeat("0123456789abcdef", 4)
	otherID = strings.Repeat("fedcba9876543210", 4)

	trainer = gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml-team", Name: "train-0", UID: uid, Part: "trainer"}
	sidecar = gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml-team", Name: "train-0", UID: uid, Part: "sidecar"}
	reborn  = gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml-team", Name: "train-0", UID: otherUID, Part: "trainer"}

	notebook = gpu.Owner{Kind: gpu.OwnerPod, Scope: "home", Name: "notebook", UID: otherUID, Part: "jupyter"}

	unmapped = gpu.Owner{Kind: gpu.OwnerUnmapped}
	host     = gpu.Owner{Kind: gpu.OwnerHost}
	pending  = gpu.Owner{Kind: gpu.OwnerPending}
)

func wantOwner(t *testing.T, got, want gpu.Owner) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
}

func TestProcess(t *testing.T) {
	n := newNode(t)
	n.link(trainer, id)
	n.start(10, 12345, "python3", cgroupPath(trainer, id))

	got := n.process(10)
	want := gpu.Process{
		ID:        gpu.ProcessID{PID: 10, Start: 12345},
		Name:      "python3",
		StartTime: time.Unix(bootTime, 0).Add(123450 * time.Millisecond),
		Owner:     trainer, ContainerID: id,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Process (-want +got):\n%s", diff)
	}
	wantOwner(t, n.Owner(got.ID), trainer)
	if _, ok := n.Process(11); ok {
		t.Error("Process(11) found a process that does not exist")
	}
	wantOwner(t, n.Owner(gpu.ProcessID{PID: 11, Start: 1}), unmapped)
}

func TestProcessOwners(t *testing.T) {
	const exiting = 0x400004
	inPod := "0::" + cgroupPath(trainer, id)
	tests := []struct {
		name         string
		stat, cgroup string // content of the files of PID 10
		want         gpu.Owner
	}{
		{"container", statLine(10, 5, "x", 0), inPod, trainer},
		{"same pod, seen from a private namespace", statLine(10, 5, "x", 0), "0::/../" + id, trainer},
		{"host service", statLine(10, 5, "x", 0), "0::/system.slice/nvidia-persistenced.service", host},
		{"host container", statLine(10, 5, "x", 0), "0::/docker/" + id, gpu.Owner{Kind: gpu.OwnerHost}},
		{"container without a link", statLine(10, 5, "x", 0), "0::" + cgroupPath(trainer, otherID), gpu.Owner{}},
		{"container in another pod than the pod in its link", statLine(10, 5, "x", 0), "0::" + cgroupPath(reborn, id), pending},
		{"pod without a container", statLine(10, 5, "x", 0), "0::/kubepods/pod" + uid, gpu.Owner{}},
		{"malformed UID", statLine(10, 5, "x", 0), "0::/kubepods/pod1234/" + id, unmapped},
		{"malformed line", statLine(10, 5, "x", 0), "garbage", unmapped},
		{"10 kB line", statLine(10, 5, "x", 0), "0::/" + strings.Repeat("x", 10_000), host},
		{"exiting, in the root of cgroup v1", statLine(10, 5, "x", exiting), "4:memory:/", unmapped},
		{"exiting, still in its pod", statLine(10, 5, "x", exiting), inPod, trainer},
		{"kernel thread, seen from a private namespace", statLine(10, 5, "x", 0x200040), "0::/../../../..", host},
		{"malformed stat", "10 (x)", inPod, unmapped},
		{"empty stat", "", inPod, unmapped},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.link(trainer, id)
			n.write("proc/10/stat", tt.stat)
			n.write("proc/10/cgroup", tt.cgroup+"\n")
			p := n.process(10)
			wantOwner(t, p.Owner, tt.want)
			wantOwner(t, n.Owner(p.ID), tt.want)
		})
	}
}

// TestMainThreadExited checks that a process is still attributed to its container when its main thread has exited. With
// cgroup v1, an exited thread is in the root cgroup, so the mapper must read the cgroup of another thread.
func TestMainThreadExited(t *testing.T) {
	const exiting = 0x400004
	inPod := "4:memory:" + cgroupPath(trainer, id)
	type thread struct {
		flags  int
		cgroup string
	}
	tests := []struct {
		name    string
		threads []thread // other threads than the main thread
		want    gpu.Owner
	}{
		{"a thread runs", []thread{{0, inPod}}, trainer},
		{"the second thread runs", []thread{{exiting, "4:memory:/"}, {0, inPod}}, trainer},
		{"a thread in a host cgroup runs", []thread{{0, "4:memory:/system.slice/sshd.service"}}, host},
		{"all threads have exited", []thread{{exiting, "4:memory:/"}}, unmapped},
		{"a cgroup that cannot be read", []thread{{0, "what is this?"}}, unmapped},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.link(trainer, id)
			n.write("proc/10/stat", statLine(10, 5, "x", exiting))
			n.write("proc/10/cgroup", "4:memory:/\n")
			for i, th := range append([]thread{{exiting, "4:memory:/"}}, tt.threads...) {
				n.write(fmt.Sprintf("proc/10/task/%d/stat", 10+i), statLine(uint32(10+i), 5, "x", th.flags))
				n.write(fmt.Sprintf("proc/10/task/%d/cgroup", 10+i), th.cgroup+"\n")
			}
			wantOwner(t, n.process(10).Owner, tt.want)
		})
	}
}

func TestProcessNameIsKeptAsItIs(t *testing.T) {
	n := newNode(t)
	for i, name := range []string{"a) S 1 (b", "\n\"\\", "\xff\xfe", " ", "", strings.Repeat("n", 64)} {
		pid := uint32(100 + i)
		n.start(pid, 5, name, "/")
		if got := n.process(pid).Name; got != name {
			t.Errorf("name = %q, want %q", got, name)
		}
	}
}

func TestProcessIsReadOnce(t *testing.T) {
	n := newNode(t)
	n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	first := n.process(10)
	n.start(10, 5, "renamed", "/system.slice/elsewhere")
	if diff := cmp.Diff(first, n.process(10)); diff != "" {
		t.Errorf("second answer (-first +second):\n%s", diff)
	}
}

func TestReusedPIDIsAnotherProcess(t *testing.T) {
	n := newNode(t)
	n.link(trainer, id)
	old := n.start(10, 5, "python3", cgroupPath(trainer, id))
	wantOwner(t, n.process(10).Owner, trainer)
	n.start(10, 6, "sshd", "/system.slice/ssh.service")
	p := n.process(10)
	if p.ID.Start != 6 || p.Name != "sshd" {
		t.Errorf("process = %+v, want the new one", p)
	}
	wantOwner(t, p.Owner, host)
	wantOwner(t, n.Owner(old), trainer)
}

// TestPIDReusedWhileItIsRead reuses a PID between the reads of stat and cgroup. The cgroup must not be attributed to
// either process.
func TestPIDReusedWhileItIsRead(t *testing.T) {
	n := newNode(t)
	n.link(trainer, id)
	n.link(sidecar, otherID)
	n.start(10, 5, "old", "")
	requested, pipe := n.readSlowly(10)
	n.start(10, 6, "new", cgroupPath(sidecar, otherID))
	_, err := fmt.Fprintf(pipe, "0::%s\n", cgroupPath(trainer, id))
	check(t, errors.Join(err, pipe.Close()))
	p := <-requested
	if p == nil || p.ID.Start != 6 || p.Name != "new" {
		t.Fatalf("process = %+v, want the new one", p)
	}
	wantOwner(t, p.Owner, sidecar)
	wantOwner(t, n.Owner(gpu.ProcessID{PID: 10, Start: 5}), unmapped)
}

func TestProcessVanishesWhileItIsRead(t *testing.T) {
	n := newNode(t)
	n.start(10, 5, "x", "")
	requested, pipe := n.readSlowly(10)
	n.exit(10)
	check(t, pipe.Close())
	if p := <-requested; p != nil {
		t.Errorf("process = %+v, want none", p)
	}
}

// readSlowly requests a process from the mapper. The cgroup file of the process is a pipe, to which the test writes
// later. readSlowly returns when the mapper has read the file stat and has opened this pipe. The channel receives the
// process, or nil if the process does not exist.
func (n *node) readSlowly(pid uint32) (<-chan *gpu.Process, io.WriteCloser) {
	n.t.Helper()
	cgroup := fmt.Sprintf("proc/%d/cgroup", pid)
	n.remove(cgroup)
	check(n.t, syscall.Mkfifo(n.path(cgroup), 0o644))
	requested := make(chan *gpu.Process, 1)
	go func() {
		if p, ok := n.Process(pid); ok {
			requested <- &p
		}
		close(requested)
	}()
	pipe, err := os.OpenFile(n.path(cgroup), os.O_WRONLY, 0)
	check(n.t, err)
	return requested, pipe
}

// TestUnreadableCgroup checks a process whose cgroup cannot be read. The process must be unmapped, the stage must
// report an error, and the process must be read again later. Other processes must not be affected.
func TestUnreadableCgroup(t *testing.T) {
	n := newNode(t)
	n.serve(holds())
	n.link(trainer, id)
	n.start(1, 1, "systemd", "")
	n.remove("proc/1/cgroup")
	check(t, os.Mkdir(n.path("proc/1/cgroup"), 0o755)) // root may read any file, but cannot read a directory as a file
	n.start(2, 2, "no cgroup", "")
	n.remove("proc/2/cgroup")
	n.start(10, 5, "python3", cgroupPath(trainer, id))

	n.pollFails("cannot read 2 of 3 processes")
	n.wantStage(stage.Processes, false)
	wantOwner(t, n.process(1).Owner, unmapped)
	wantOwner(t, n.process(2).Owner, unmapped)
	wantOwner(t, n.process(10).Owner, trainer)

	n.remove("proc/1/cgroup")
	n.start(1, 1, "systemd", "/init.scope")
	n.exit(2)
	n.poll()
	n.wantStage(stage.Processes, true)
	wantOwner(t, n.process(1).Owner, host)
}

// TestExitsDuringScan checks a process that begins to exit after the scan has read its stat file. With cgroup v1, the
// cgroup of such a process is unknown. The scan must return no error.
func TestExitsDuringScan(t *testing.T) {
	n := newNode(t)
	n.serve(holds())
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.remove("proc/10/cgroup")
	check(t, syscall.Mkfifo(n.path("proc/10/cgroup"), 0o644))
	scanned := make(chan error, 1)
	go func() { scanned <- n.Refresh(t.Context()) }()
	pipe, err := os.OpenFile(n.path("proc/10/cgroup"), os.O_WRONLY, 0) // the call returns when the scan opens the file
	check(t, err)
	n.write("proc/10/stat", statLine(10, 5, "python3", 4))
	_, err = io.WriteString(pipe, "4:memory:/\n")
	check(t, errors.Join(err, pipe.Close(), <-scanned))
	n.wantStage(stage.Processes, true)
}

func TestNoProc(t *testing.T) {
	n := newNode(t)
	n.serve(holds())
	n.remove("proc")
	n.pollFails("list processes")
	n.wantStage(stage.Processes, false)
	n.wantStage(stage.ContainerLogs, true)
	n.wantStage(stage.PodResources, true)
	if _, ok := n.Process(10); ok {
		t.Error("Process found a process without /proc")
	}
}

func TestOwnerOutlivesTheProcess(t *testing.T) {
	n := newNode(t)
	n.serve(holds())
	link := n.link(trainer, id)
	p := n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.process(10)
	n.exit(10)
	n.remove(link)
	if _, ok := n.Process(10); ok {
		t.Error("Process found a process that ended")
	}
	n.pass(time.Minute)
	n.poll()
	wantOwner(t, n.Owner(p), trainer)
	n.pass(2 * time.Minute)
	n.poll()
	wantOwner(t, n.Owner(p), unmapped)
}

// TestPendingOwner checks a process whose owner becomes known only after some time, or only after the process has
// ended.
func TestPendingOwner(t *testing.T) {
	n := newNode(t)
	p := n.start(10, 5, "python3", cgroupPath(trainer, id))
	wantOwner(t, n.process(10).Owner, pending)
	n.exit(10)
	n.link(trainer, id)
	wantOwner(t, n.Owner(p), trainer)
}
