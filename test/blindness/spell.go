package blindness

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// A Spell is a period in which the exporter cannot read a source, or reads wrong data from it.
type Spell struct {
	Kind        int // position in Kinds
	GPU         int // the affected GPU, if the kind of spell affects only one GPU
	From, Until time.Duration
}

func (s Spell) span() span { return span{s.From, s.Until} }

// group is a resource of the node that a spell affects. A resource has at most one spell at a time.
type group string

const (
	groupKubelet  group = "kubelet"
	groupDriver   group = "driver"
	groupProc     group = "proc"
	groupCounter  group = "counter"
	groupProlog   group = "prolog"
	groupExporter group = "exporter"
	groupState    group = "state"
)

// hides is a set of kinds of data that a spell hides from the exporter.
type hides int

const (
	// hidesPods hides the kubelet's allocations.
	hidesPods hides = 1 << iota
	// hidesJobs hides the prolog's files.
	hidesJobs
	// liesAboutJobs means that the prolog's files name other jobs.
	liesAboutJobs
	// hidesContexts hides the list of processes on a GPU.
	hidesContexts
	// hidesOwners hides the owner of a process and the state of a pod's processes.
	hidesOwners
	// hidesBoot hides the boot id. An exporter that starts must read the boot id before it can continue its counters.
	hidesBoot
	// hidesEnergy hides the energy counter. The next change of the counter contains all energy since the last change.
	hidesEnergy
	// dropsEnergy means that the energy around a change of the counter cannot be determined.
	dropsEnergy
	// hidesActivity hides the samples of activity.
	hidesActivity
	// hidesBooks means that the exporter's pages keep old counters.
	hidesBooks

	hidesGPU = hidesContexts | hidesEnergy | hidesActivity
	hidesAll = hidesPods | hidesJobs | hidesGPU | hidesOwners
)

// A Kind describes which source a spell affects, and how.
type Kind struct {
	Name   string
	group  group
	hides  hides
	perGPU bool
	// faults contains the driver's faults during the spell. If perGPU is set, each spell sets the GPU of its faults.
	faults []simnode.Fault
	// begin and end make other changes at the start and the end of the spell. They may be nil.
	begin, end func(*machine, Spell) error
}

func driverCall(name, call, do string, what hides, perGPU bool) Kind {
	return Kind{Name: name, group: groupDriver, hides: what, perGPU: perGPU, faults: []simnode.Fault{{GPU: "*", Call: call, Do: do}}}
}

const (
	callCount     = "nvmlDeviceGetCount"
	callProcesses = "nvmlDeviceGetComputeRunningProcesses"
	callEnergy    = "nvmlDeviceGetTotalEnergyConsumption"
	callSamples   = "nvmlDeviceGetProcessUtilization"

	driverReloaded = "driver reloaded"
	gpuLost        = "GPU lost"
	counterLow     = "counter low"

	unknownError = "fail:999"
	gpuIsLost    = "fail:15"
	hang         = "hang"
)

// Kinds contains all kinds of spells.
var Kinds = []Kind{
	{Name: "kubelet stopped", group: groupKubelet, hides: hidesPods, begin: (*machine).stopKubelet, end: (*machine).startKubelet},
	{Name: "kubelet silent", group: groupKubelet, hides: hidesPods, begin: (*machine).muteKubelet, end: (*machine).startKubelet},
	driverCall("device list fails", callCount, unknownError, hidesGPU, false),
	driverCall("device list hangs", callCount, hang, hidesGPU, false),
	driverCall("processes fail", callProcesses, unknownError, hidesContexts, true),
	driverCall("processes hang", callProcesses, hang, hidesGPU, true),
	driverCall("energy fails", callEnergy, unknownError, hidesEnergy|dropsEnergy, true),
	driverCall("energy hangs", callEnergy, hang, hidesGPU, true),
	driverCall("samples fail", callSamples, unknownError, hidesActivity, true),
	driverCall("samples hang", callSamples, hang, hidesGPU, true),
	driverCall(gpuLost, "*", gpuIsLost, hidesGPU, true),
	{Name: driverReloaded, group: groupDriver, hides: hidesGPU | dropsEnergy, begin: (*machine).unloadDriver, end: (*machine).loadDriver},
	{Name: "proc empty", group: groupProc, hides: hidesOwners | hidesBoot, begin: (*machine).emptyProc, end: (*machine).restoreProc},
	{Name: "proc missing", group: groupProc, hides: hidesOwners | hidesBoot, begin: (*machine).removeProc, end: (*machine).restoreProc},
	{Name: "proc hidden", group: groupProc, hides: hidesOwners, begin: (*machine).hideProc, end: (*machine).restoreProc},
	{Name: "counter frozen", group: groupCounter, hides: hidesEnergy, perGPU: true, begin: (*machine).freeze, end: (*machine).thaw},
	{Name: "counter late", group: groupCounter, hides: hidesEnergy, perGPU: true, begin: (*machine).delay, end: (*machine).thaw},
	{Name: "counter reset", group: groupCounter, hides: dropsEnergy, perGPU: true, begin: (*machine).reset},
	{Name: counterLow, group: groupCounter, hides: hidesEnergy | dropsEnergy, perGPU: true, faults: []simnode.Fault{{GPU: "*", Call: callEnergy, Do: "glitch-low"}}},
	{Name: "counter high", group: groupCounter, hides: hidesEnergy | dropsEnergy, perGPU: true, faults: []simnode.Fault{{GPU: "*", Call: callEnergy, Do: "glitch-high"}}},
	{Name: "prolog missing", group: groupProlog, hides: hidesJobs, begin: prologs(prologMissing), end: prologs(prologTrue)},
	{Name: "prolog false", group: groupProlog, hides: liesAboutJobs, begin: prologs(prologFalse), end: prologs(prologTrue)},
	{Name: "prolog late", group: groupProlog, hides: hidesJobs, begin: prologs(prologLate), end: prologs(prologTrue)},
	{Name: "exporter killed", group: groupExporter, begin: (*machine).kill, end: (*machine).launch},
	{Name: "exporter stopped", group: groupExporter, begin: (*machine).stop, end: (*machine).launch},
	{Name: "exporter restarted", group: groupExporter, begin: (*machine).restart},
	{Name: "state full", group: groupState, hides: hidesBooks, begin: (*machine).fillState, end: (*machine).emptyState},
	{Name: "state read-only", group: groupState, hides: hidesBooks, begin: (*machine).protectState, end: (*machine).releaseState},
}
