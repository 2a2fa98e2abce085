//go:build e2e

package kubelet_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

type apiPod struct {
	Metadata struct{ Name, Namespace, UID, DeletionTimestamp string }
	Status   struct {
		Phase             string
		ContainerStatuses []apiContainer
	}
}

type apiContainer struct {
	Name, ContainerID string
	State             struct {
		Running, Terminated *struct{ StartedAt string }
	}
	AllocatedResourcesStatus []struct {
		Name      string
		Resources []struct{ ResourceID, Health string }
	}
}

func (c apiContainer) devices() []string {
	var ids []string
	for _, s := range c.AllocatedResourcesStatus {
		for _, r := range s.Resources {
			ids = append(ids, r.ResourceID)
		}
	}
	slices.Sort(ids)
	return ids
}

func (p apiPod) String() string {
	text := p.Metadata.Name + " " + p.Metadata.UID + " " + p.Status.Phase
	for _, c := range p.Status.ContainerStatuses {
		state := "waiting"
		switch {
		case c.State.Running != nil:
			state = "running"
		case c.State.Terminated != nil:
			state = "terminated"
		}
		text += fmt.Sprintf(" %s=%s,%.24s,%v", c.Name, state, c.ContainerID, c.devices())
	}
	return text
}

// testPodsAPI compares the kubelet's Pods API with pod-resources, log links and cgroups.
func (n *node) testPodsAPI(t *testing.T) {
	n.run(t, trainer())
	n.run(t, server())
	var want []running
	for _, r := range containers(t) {
		if !r.Sandbox {
			r.PIDs = nil // the kubelet does not report PIDs
			slices.Sort(r.Devices)
			want = append(want, r)
		}
	}
	var diff string
	defer func() {
		if diff != "" {
			t.Errorf("containers (-containerd +Pods API):\n%s", diff)
		}
	}()
	// The status of a pod may be up to a second older than the state of its containers.
	eventually(t, "the Pods API has all containers", func() bool {
		diff = gocmp.Diff(want, n.apiContainers(t))
		return diff == ""
	})
}

func (n *node) apiContainers(t *testing.T) []running {
	t.Helper()
	out, err := output(n.program("podsapi"), "list", podsAPI)
	check(t, err)
	var list []running
	for line := range strings.Lines(out) {
		var p apiPod
		check(t, json.Unmarshal([]byte(line), &p))
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Running == nil {
				continue
			}
			list = append(list, running{
				ID: strings.TrimPrefix(c.ContainerID, "containerd://"), Devices: c.devices(),
				Owner: gpu.Owner{Kind: gpu.OwnerPod, Scope: p.Metadata.Namespace, Name: p.Metadata.Name, UID: p.Metadata.UID, Part: c.Name},
			})
		}
	}
	slices.SortFunc(list, compareRunning)
	return list
}

// testPodsAPIWatch checks that a watch reports the states of a pod in order, including its end.
func (n *node) testPodsAPIWatch(t *testing.T) {
	events := n.watch(t)
	for next(t, events).Type != "INITIAL_SYNC_COMPLETE" { // pods from earlier tests cause events
	}
	p := batch()
	n.write(t, p)
	first := nextOf(t, events, p, func(apiEvent) bool { return true })
	if first.Type != "ADDED" || len(first.Pod.Status.ContainerStatuses[0].devices()) != 1 {
		t.Errorf("the first event of the pod is %s, want ADDED with one device", first)
	}
	nextOf(t, events, p, func(e apiEvent) bool { return e.Pod.Status.Phase == "Running" })
	up := n.await(t, p)
	check(t, syscall.Kill(int(up[0].PIDs[0]), syscall.SIGTERM))
	nextOf(t, events, p, func(e apiEvent) bool { return e.Pod.Status.Phase == "Succeeded" })
	n.remove(t, p)
	nextOf(t, events, p, func(e apiEvent) bool { return e.Type == "DELETED" })
}

func nextOf(t *testing.T, events <-chan apiEvent, p pod, ok func(apiEvent) bool) apiEvent {
	t.Helper()
	for {
		e := next(t, events)
		if e.Pod.Metadata.UID != p.uid {
			continue
		}
		t.Log(e)
		if ok(e) {
			return e
		}
	}
}

type apiEvent struct {
	Type string
	Pod  apiPod
}

func (e apiEvent) String() string { return e.Type + " " + e.Pod.String() }

func (n *node) watch(t *testing.T) <-chan apiEvent {
	t.Helper()
	cmd := exec.Command(n.program("podsapi"), "watch", podsAPI)
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	events := make(chan apiEvent, 1000)
	go readEvents(stdout, events)
	return events
}

func readEvents(r io.Reader, events chan<- apiEvent) {
	defer close(events)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e apiEvent
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			events <- e
		}
	}
}

func next(t *testing.T, events <-chan apiEvent) apiEvent {
	t.Helper()
	select {
	case e, ok := <-events:
		if !ok {
			t.Fatal("the watch ended before the expected event")
		}
		return e
	case <-time.After(time.Minute):
		t.Fatal("the watch reported no event for a minute")
	}
	return apiEvent{}
}
