package owner_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/owner"
	"github.com/gpuledger/gpuledger/internal/proc"
)

// word is a resolver that accepts processes if their cgroup contains the field word.
type word struct {
	word   string
	calls  int
	answer func(n int) owner.Answer // returns the answer to the n-th call
}

func (w *word) Resolve(p owner.Process) func() owner.Answer {
	if !strings.Contains(p.Cgroup, w.word) {
		return nil
	}
	return func() owner.Answer {
		w.calls++
		return w.answer(w.calls)
	}
}

type machine struct {
	t   *testing.T
	dir string
	now time.Duration
	*owner.Chain
}

func newMachine(t *testing.T, resolvers ...owner.Resolver) *machine {
	m := &machine{t: t, dir: t.TempDir(), now: time.Hour}
	clock := func() gpu.Instant { return gpu.Instant{Wall: time.Unix(2_000_000_000, 0).Add(m.now), Boot: m.now} }
	m.Chain = owner.NewChain(proc.Tree{Root: m.dir}, clock, resolvers...)
	m.write("stat", "btime 2000000000\n")
	return m
}

func (m *machine) write(name, content string) {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) start(pid uint32, ticks int, flags int, cgroup string) gpu.ProcessID {
	m.write(fmt.Sprintf("%d/stat", pid), fmt.Sprintf("%d (x) S 1 7 7 0 -1 %d 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0\n", pid, flags, ticks))
	m.write(fmt.Sprintf("%d/cgroup", pid), cgroup)
	return gpu.ProcessID{PID: pid, Start: uint64(ticks)}
}

func final(o gpu.Owner) func(int) owner.Answer {
	return func(int) owner.Answer { return owner.Answer{Owner: o, Final: true} }
}

var (
	pod  = gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: "train-0", UID: "uid", Part: "main"}
	host = gpu.Owner{Kind: gpu.OwnerHost}
)

// TestOrder checks that the first resolver that accepts a process determines its owner. Other processes must belong to
// the host.
func TestOrder(t *testing.T) {
	one, two := &word{word: "one", answer: final(pod)}, &word{word: "o", answer: final(gpu.Owner{Kind: gpu.OwnerUnmapped})}
	m := newMachine(t, one, two)
	id := strings.Repeat("0", 64)
	m.start(10, 5, 0, "0::/one")
	m.start(11, 5, 0, "0::/two")
	m.start(12, 5, 0, "0::/system.slice/"+id)
	m.start(13, 5, 0x200000, "0::/one") // 0x200000 marks a kernel thread
	for pid, want := range map[uint32]gpu.Process{
		10: {Owner: pod}, 11: {Owner: gpu.Owner{Kind: gpu.OwnerUnmapped}}, 12: {Owner: host, ContainerID: id}, 13: {Owner: host},
	} {
		want.ID, want.Name, want.StartTime = gpu.ProcessID{PID: pid, Start: 5}, "x", time.Unix(2_000_000_000, 0).Add(50*time.Millisecond)
		got, ok := m.Process(pid)
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("process %d (-want +got):\n%s", pid, diff)
		}
	}
}

// TestFinal checks that the chain calls a resolver until its answer is final, even after the process has ended.
func TestFinal(t *testing.T) {
	answers := []owner.Answer{{}, {Owner: pod.Group(), ContainerID: "c"}, {Owner: pod, ContainerID: "c", Final: true}}
	w := &word{word: "pod", answer: func(n int) owner.Answer { return answers[n-1] }}
	m := newMachine(t, w)
	id := m.start(10, 5, 0, "0::/pod")
	if p, ok := m.Process(10); !ok || p.Owner != (gpu.Owner{}) {
		t.Errorf("process %+v, %v; want no owner yet", p, ok)
	}
	if err := os.RemoveAll(filepath.Join(m.dir, "10")); err != nil {
		t.Fatal(err)
	}
	if _, ok := m.Process(10); ok {
		t.Error("Process returned a process that has ended")
	}
	for _, want := range []gpu.Owner{pod.Group(), pod, pod} {
		if got := m.Owner(id); got != want {
			t.Errorf("owner %+v, want %+v", got, want)
		}
	}
	if w.calls != 3 {
		t.Errorf("the resolver was called %d times, want 3", w.calls)
	}
	m.now += 2 * time.Minute
	if got := m.Owner(id); got.Kind != gpu.OwnerUnmapped {
		t.Errorf("owner after two minutes is %+v, want unmapped", got)
	}
}

func TestUnmappedAgain(t *testing.T) {
	m := newMachine(t, &word{word: "?", answer: final(gpu.Owner{Kind: gpu.OwnerUnmapped})})
	m.start(10, 5, 0, "?")
	if p, _ := m.Process(10); p.Owner.Kind != gpu.OwnerUnmapped {
		t.Errorf("owner %+v, want unmapped", p.Owner)
	}
	m.start(10, 5, 0, "0::/system.slice")
	if p, _ := m.Process(10); p.Owner != host {
		t.Errorf("owner after the cgroup changed is %+v, want the host", p.Owner)
	}
}

func TestUnreadable(t *testing.T) {
	m := newMachine(t)
	m.write("10/stat", "10 (x)")
	p, ok := m.Process(10)
	if want := (gpu.Process{ID: gpu.ProcessID{PID: 10}, Owner: gpu.Owner{Kind: gpu.OwnerUnmapped}}); !ok || p != want {
		t.Errorf("process without a valid stat: %+v, %v; want unmapped", p, ok)
	}
	m.start(11, 5, 0, "")
	if err := errors.Join(os.Remove(filepath.Join(m.dir, "stat")), os.Remove(filepath.Join(m.dir, "11", "cgroup"))); err != nil {
		t.Fatal(err)
	}
	if p, ok := m.Process(11); !ok || p.Owner.Kind != gpu.OwnerUnmapped || !p.StartTime.IsZero() {
		t.Errorf("process without a cgroup: %+v, %v; want unmapped", p, ok)
	}
	if got := m.Owner(gpu.ProcessID{PID: 1}); got.Kind != gpu.OwnerUnmapped {
		t.Errorf("owner of an unknown process: %+v, want unmapped", got)
	}
}
