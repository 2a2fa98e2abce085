package blindness

import (
	"fmt"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

const namespace = "team"

// scenario omits the outages, which the machine simulates.
func (s *Schedule) scenario() (simnode.Scenario, error) {
	sc, err := simnode.Lookup("dgx-h100")
	if err != nil {
		return sc, err
	}
	sc.Name, sc.Node = "blindness", "blindness-0"
	sc.GPUs, sc.Pods = sc.GPUs[:len(s.GPUs)], sc.Pods[:1] // keep the pod of the device plugin
	sc.PodsAPI = s.Seed%2 == 0
	sc.NoTruth = true
	for i, b := range s.GPUs {
		sc.GPUs[i].UUID, sc.GPUs[i].Floor, sc.GPUs[i].Replicas = b.UUID, b.Floor, b.Replicas
	}
	for i := range s.Owners {
		if o := &s.Owners[i]; o.Job {
			sc.Units = append(sc.Units, o.unit(i))
		} else {
			sc.Pods = append(sc.Pods, o.pod())
		}
	}
	return sc, nil
}

func (o *Owner) work() []simnode.Work {
	if !o.Context {
		return nil
	}
	return []simnode.Work{{GPU: o.GPU, Watts: o.Watts, Load: simnode.Constant(o.Percent), Memory: 1 << 30}}
}

func (o *Owner) pod() simnode.Pod {
	c := simnode.Container{Name: "main", Processes: []simnode.Process{{Comm: "work", Work: o.work()}}}
	if o.Holds {
		c.Devices = simnode.Parts(o.GPU, o.Replica)
	}
	return simnode.Pod{
		Namespace: namespace, Name: o.Name, QoS: "burstable", Containers: []simnode.Container{c},
		Span: simnode.Span{From: o.From, Until: o.Until},
	}
}

// unit returns a job without files, because the machine writes the prolog's files.
func (o *Owner) unit(i int) simnode.Unit {
	u := simnode.SlurmJob(o.Name, fmt.Sprintf("s8FXKTA79XA%03d", i), jobUser, nil, o.work()...)
	u.Span = simnode.Span{From: o.From, Until: o.Until}
	return u
}

const jobUser = 1001
