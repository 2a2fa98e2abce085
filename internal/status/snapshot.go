package status

import (
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// New returns the page for a snapshot that is served at the time now.
func New(s *gpu.Snapshot, now gpu.Instant) Page {
	age := now.Sub(s.At)
	p := Page{
		Version: Version, Time: s.At.Wall.UTC(), AgeSeconds: age.Seconds(), Node: shown(s.Node.Name),
		DriverUp: len(s.Drivers) > 0, Drivers: s.Drivers, PCIGPUs: s.PCIGPUs, DriverGPUs: s.DriverGPUs,
		GPUs: make([]GPU, 0, len(s.GPUs)), Stages: make([]Stage, 0, len(s.Stages)),
	}
	advice := health.New(s, now)
	p.Advice, p.Evidence = advice.Advice, advice.Evidence
	since := func(t time.Time) (*time.Time, *float64) {
		if t.IsZero() {
			return nil, nil
		}
		// Without max, the age could be negative after the wall clock was set back.
		return new(t.UTC()), new(max(0, s.At.Wall.Sub(t)+age).Seconds())
	}
	for i := range s.GPUs {
		g := newGPU(&s.GPUs[i], age <= stale)
		g.Advice, g.Evidence = advice.GPUs[i].Advice, advice.GPUs[i].Evidence
		g.LastReading, g.ReadingAgeSeconds = since(s.GPUs[i].LastReading)
		for k := range g.Containers {
			c := &g.Containers[k]
			info := s.Units[gpu.Unit{Manager: c.Manager, Name: c.Unit}]
			c.User, c.UID, c.Account = shown(info.User), shown(info.UID), shown(info.Account)
			c.JobName, c.ArrayElement = shown(info.JobName), shown(info.ArrayElement)
		}
		p.GPUs = append(p.GPUs, g)
	}
	for _, st := range s.Stages {
		health := Stage{Name: shown(st.Name), Up: st.Up, Failures: st.Failures, Error: reason(st.Err)}
		health.LastSuccess, health.SuccessAgeSeconds = since(st.LastSuccess)
		p.Stages = append(p.Stages, health)
	}
	return p
}

func newGPU(g *gpu.GPU, fresh bool) GPU {
	out := GPU{
		UUID: shown(g.UUID), PCIBusID: shown(g.PCIBusID),
		Model: identity(g.Model), Serial: identity(g.Serial), BoardPartNumber: identity(g.BoardPartNumber),
		ChassisSerial: identity(g.Platform.ChassisSerial),
		ChassisSlot:   g.Platform.Slot, TrayIndex: g.Platform.Tray, ModuleID: g.Platform.ModuleID,
		Present: g.Present, Answers: g.Present && g.Reading != nil && fresh,
		HoldersKnown: g.HoldersKnown, Containers: containers(g),
		EnergySource: g.EnergySource, EnergyScope: g.EnergyScope,
	}
	if g.Present {
		out.Index = &g.Index
	}
	if out.Answers {
		out.measure(g.Reading)
	}
	if g.ReportsEvents || g.Events.Count > 0 {
		out.XIDErrors = &g.Events.Count
	}
	for code, at := range g.Events.Last {
		if out.LastXIDTime == nil || at.After(*out.LastXIDTime) || at.Equal(*out.LastXIDTime) && code < *out.LastXID {
			out.LastXID, out.LastXIDTime = &code, new(at.UTC())
		}
	}
	if g.Partitions != nil {
		instances := make([]Instance, 0, len(g.Partitions.Instances))
		for _, i := range g.Partitions.Instances {
			instances = append(instances, Instance{ID: shown(i.ID), Profile: shown(i.Profile)})
		}
		out.MIG = &instances
	}
	for i := range g.Processes {
		switch g.Processes[i].Owner.Kind {
		case gpu.OwnerHost:
			out.HostProcesses++
		case gpu.OwnerUnmapped:
			out.UnmappedProcesses++
		}
	}
	if g.Book != nil {
		out.Energy, out.Explained = newEnergy(g.Book), g.Intervals != nil
	}
	return out
}

func bytes(v *float64) *uint64 {
	if v == nil {
		return nil
	}
	return new(uint64(*v))
}

func (g *GPU) measure(r *gpu.Reading) {
	g.PowerWatts, g.PowerLimitWatts = r.Gauges[gpu.Power], (*float64)(r.PowerLimit)
	g.TemperatureCelsius, g.UtilizationRatio = r.Gauges[gpu.Temperature], r.Gauges[gpu.Utilization]
	g.MemoryUsedBytes, g.MemoryTotalBytes = bytes(r.Gauges[gpu.MemoryUsed]), bytes(r.Gauges[gpu.MemoryTotal])
	if r.RowRemap != nil {
		g.RowRemapPending, g.RowRemapFailed = &r.RowRemap.Pending, &r.RowRemap.Failed
	}
	for _, e := range r.RASErrors {
		g.RASErrors = append(g.RASErrors, RASErrors{Block: shown(e.Block), Type: e.Type, Count: e.Count})
	}
}

// newEnergy converts the energy of a GPU to joules. It adds whole millijoules before it converts the sums, so that the
// sums are exact.
func newEnergy(b *gpu.Book) *Energy {
	var charged gpu.ByMethod
	for i := range b.Accounts {
		for m, e := range b.Accounts[i].Energy {
			charged[m] += e
		}
	}
	e := &Energy{
		From: b.Opened.UTC(), To: b.Settled.Wall.UTC(), Total: b.Energy.Joules(), Charged: newCharged(charged),
		Unattributed: make(map[string]float64, gpu.NumReasons), Retired: b.Retired.Joules(),
	}
	for r, m := range b.Unattributed {
		e.Unattributed[gpu.Reason(r).String()] = m.Joules()
	}
	return e
}

func newCharged(e gpu.ByMethod) Charged {
	return Charged{
		Exclusive: e[gpu.Exclusive].Joules(), Shared: e[gpu.Shared].Joules(), Allocated: e[gpu.Allocated].Joules(),
	}
}

// containers returns the containers that hold a GPU now, followed by other containers to which energy of the GPU was
// charged.
func containers(g *gpu.GPU) []Container {
	out := make([]Container, 0, len(g.Holders))
	at := make(map[gpu.AccountKey]int)
	for _, h := range g.Holders {
		if _, listed := at[h.AccountKey]; listed {
			continue
		}
		at[h.AccountKey] = len(out)
		c := newContainer(h.AccountKey)
		c.Holds, c.Sharing, c.Replicas = true, gpu.Sharing(shown(string(h.Sharing))), h.Replicas
		c.Resource, c.Claim = shown(h.Resource), shown(h.Claim)
		out = append(out, c)
	}
	if g.Book == nil {
		return out
	}
	for i := range g.Book.Accounts {
		a := &g.Book.Accounts[i]
		j, holds := at[a.AccountKey]
		if !holds {
			j = len(out)
			out = append(out, newContainer(a.AccountKey))
		}
		out[j].Energy = new(newCharged(a.Energy))
		out[j].Energy.Idle = a.Idle.Joules()
	}
	return out
}

func newContainer(k gpu.AccountKey) Container {
	if u := k.Unit(); u != (gpu.Unit{}) {
		return Container{Manager: shown(u.Manager), Unit: shown(u.Name), GPUInstance: shown(k.GPUInstance)}
	}
	return Container{
		Namespace: shown(k.Scope), Pod: shown(k.Name), PodUID: shown(k.UID), Container: shown(k.Part),
		GPUInstance: shown(k.GPUInstance),
	}
}

// shown returns a string as labels contain it: valid UTF-8 of limited length. The output functions escape the string.
func shown(s string) string { return labelvalue.Valid(s) }

func identity(s string) string { return shown(gpu.Identity(s)) }

// reason returns an error message as valid UTF-8. The message may be longer than a label, because
// the advice is at the end of the message.
func reason(s string) string { return strings.ToValidUTF8(s[:min(len(s), 1024)], "\uFFFD") }
