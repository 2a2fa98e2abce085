//go:build e2e && realtime

package main_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// The times of a day are measured from the start of the node.
type day struct {
	hours int
	// troubles is the end of the first hour. In the first hour, only pods start and end.
	troubles  time.Duration
	end       time.Duration
	restarts  int // restarts of the kubelet
	reloads   int // reloads of the driver
	podCount  int
	eventList []simnode.Event
}

func newDay(hours int) day {
	d := day{hours: hours, troubles: calm + accelerated, end: calm + time.Duration(hours)*accelerated}
	d.podCount = hours * int(accelerated/time.Second) * podsPerSecond
	for at := d.troubles; at < d.end; at += accelerated {
		d.eventList = append(d.eventList,
			simnode.Event{At: at + 4*time.Second, Do: simnode.StopKubelet},
			simnode.Event{At: at + 6*time.Second, Do: simnode.StartKubelet},
			simnode.Event{At: at + 14*time.Second, Do: simnode.UnloadDriver},
			simnode.Event{At: at + 15*time.Second, Do: simnode.LoadDriver})
		d.restarts++
		d.reloads++
	}
	return d
}

// The first five GPUs of the machine get new pods at regular intervals, five pods per second in total. The next two
// GPUs are always in use. The last GPU has short storms of processes.
func (d day) scenario(t *testing.T) simnode.Scenario {
	t.Helper()
	sc, err := simnode.Lookup("idle")
	if err != nil {
		t.Fatal(err)
	}
	pod := func(name string, g int, processes ...simnode.Process) simnode.Pod {
		return simnode.Pod{Namespace: "batch", Name: name, QoS: "besteffort", Containers: []simnode.Container{{
			Name: "main", Devices: simnode.GPUs(g), Processes: processes,
		}}}
	}
	work := func(comm string, g, percent int) simnode.Process {
		return simnode.Process{Comm: comm, Work: []simnode.Work{{GPU: g, Watts: 400, Load: simnode.Constant(percent), Memory: 1 << 26}}}
	}
	for g := range podsPerSecond {
		p := pod(fmt.Sprint("job-", g), g, work("job", g, 80))
		p.Lifetime = time.Second
		p.From, p.Until = calm+time.Duration(g)*time.Second/podsPerSecond, d.end
		sc.Pods = append(sc.Pods, p)
	}
	sc.Pods = append(sc.Pods, pod("chat-0", 5, work("vllm", 5, 60)), pod("chat-1", 6, work("vllm", 6, 90)))
	sc.Name, sc.Events, sc.NoTruth = "soak", d.eventList, true
	if d.reloads == 0 {
		return sc
	}
	storm := pod("storm", 7)
	for i := range stormSize {
		storm.Containers[0].Processes = append(storm.Containers[0].Processes, work("worker", 7, max(0, 1-i/90)))
	}
	storm.From, storm.Until, storm.Lifetime, storm.Pause = d.troubles+time.Second, d.end, stormSpan, stormPause
	sc.Pods = append(sc.Pods, storm)
	return sc
}
