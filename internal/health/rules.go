package health

import "slices"

// Advice is the action that a GPU or a node needs.
type Advice string

// These values are sorted from the best to the worst.
const (
	OK     Advice = "ok"
	Watch  Advice = "watch"  // the GPU works, but there is a finding
	Reset  Advice = "reset"  // reset the GPU or reboot the node after its jobs have ended
	Return Advice = "return" // return the board
)

var order = []Advice{OK, Watch, Reset, Return}

// Worse returns the worse of two values. An unknown value counts as the worst. It may come from a newer exporter.
func Worse(a, b Advice) Advice {
	rank := func(v Advice) uint { return uint(slices.Index(order, v)) }
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// Rule assigns advice to a finding.
type Rule struct {
	// Code identifies the finding. The code of an XID error is xid_<number>.
	Code string
	XID  uint64 // number of the XID error, or 0 for other findings
	// Advice is the advice for a first finding. Again is the advice if the finding recurs after a reset. If Again is
	// empty, the advice does not change.
	Advice, Again Advice
	Meaning       string
	Source        Source
	// Alert is the alert that reports the finding. It is empty if there is no such alert.
	Alert string
}

// Source is a document from which advice is derived.
type Source struct{ Name, Address string }

// The sources.
var (
	catalogue  = Source{"XID catalogue", "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"}
	memory     = Source{"GPU memory error management", "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html"}
	guidelines = Source{"GPU debug guidelines", "https://docs.nvidia.com/deploy/gpu-debug-guidelines/index.html"}
	header     = Source{"nvml.h", "https://docs.nvidia.com/deploy/nvml-api/"}
	design     = Source{"design", "design.md"}
	comparison = Source{"runbook", "runbooks/gpuledger-clock-low.md"}
	amdgpu     = Source{"amdgpu RAS", "https://docs.kernel.org/gpu/amdgpu/ras.html"}
)

// Codes of findings that are not XID errors.
const (
	lost              = "lost"
	notAnswering      = "not_answering"
	rowRemapFailure   = "row_remap_failure"
	rowRemapPending   = "row_remap_pending"
	sramThreshold     = "sram_threshold"
	pcieNarrow        = "pcie_narrow"
	memoryErrors      = "memory_uncorrectable"
	spareRowsLow      = "spare_rows_low"
	linksDown         = "nvlink_down"
	linkErrors        = "nvlink_errors"
	throttled         = "throttled"
	clockLow          = "clock_low"
	fabricFailed      = "fabric_failed"
	fabricIncomplete  = "fabric_not_completed"
	fabricProblem     = "fabric_problem"
	recoveryReset     = "recovery_reset"
	recoveryOther     = "recovery_other"
	rasUncorrectable  = "ras_uncorrectable"
	gpusMissing       = "gpus_missing"
	driverDown        = "driver_down"
	notRead           = "not_read"
	alertXID          = "GPULedgerXID"
	alertNotCompleted = "GPULedgerFabricNotCompleted"
)

// Rules contains a row for each finding. Alerts and runbooks for XID errors contain its code.
var Rules = []Rule{
	xid(46, Reset, Return, "the GPU stopped processing"),
	xid(48, Reset, Return, "uncorrectable memory error"),
	xid(62, Reset, Return, "a micro-controller of the GPU halted"),
	{Code: "xid_63", XID: 63, Advice: Watch, Meaning: "a faulty row was remapped or a page retired", Source: catalogue},
	xid(64, Reset, Return, "a remap of a faulty row could not be recorded"),
	xid(74, Watch, "", "NVLink error"),
	xid(79, Reset, Return, "the GPU fell off the bus"),
	xid(94, Watch, "", "uncorrectable error, contained: one process was killed"),
	xid(95, Reset, Return, "uncorrectable error, not contained"),
	xid(119, Reset, Return, "the GPU's firmware (GSP) timed out"),
	xid(120, Reset, Return, "the GPU's firmware (GSP) failed"),
	xid(140, Reset, Return, "an uncorrectable error interrupted row remapping"),
	xid(143, Reset, Return, "the GPU could not be initialised"),
	xid(144, Watch, "", "NVLink error: SAW"),
	xid(145, Watch, "", "NVLink error: RLW"),
	xid(146, Watch, "", "NVLink error: TLW"),
	xid(147, Watch, "", "NVLink error: TREX"),
	xid(148, Watch, "", "NVLink error: NVLPW_CTRL"),
	xid(149, Watch, "", "NVLink error: NETIR"),
	xid(150, Watch, "", "NVLink error: MSE"),
	xid(154, Watch, "", "the required recovery changed; see the kernel log for the action"),
	xid(158, Reset, Return, "a fatal timeout of the GPU"),
	{Code: rowRemapFailure, Advice: Return, Meaning: "no spare row is left for a faulty memory row", Source: memory, Alert: "GPULedgerRowRemapFailure"},
	{Code: rowRemapPending, Advice: Reset, Meaning: "a row remap is pending until the next reset", Source: memory, Alert: "GPULedgerRowRemapPending"},
	{Code: sramThreshold, Advice: Return, Meaning: "the SRAM has more errors than the vendor's field diagnostic allows", Source: header, Alert: "GPULedgerSRAMErrors"},
	{Code: pcieNarrow, Advice: Watch, Meaning: "the PCIe link has fewer lanes than both the GPU and the machine support: reseat the board", Source: guidelines, Alert: "GPULedgerLinkNarrow"},
	{Code: memoryErrors, Advice: Reset, Meaning: "uncorrectable memory errors since the driver was loaded", Source: memory, Alert: "GPULedgerMemoryErrors"},
	{Code: spareRowsLow, Advice: Watch, Meaning: "a memory bank has few or no spare rows left: plan the board's return", Source: memory, Alert: "GPULedgerSpareRowsLow"},
	{Code: linksDown, Advice: Watch, Meaning: "more NVLink links are inactive than on another GPU of the node", Source: header, Alert: "GPULedgerLinkDown"},
	{Code: linkErrors, Advice: Watch, Meaning: "NVLink links were replayed or recovered since the driver was loaded (from NVLink 5 on: since the boot)", Source: header, Alert: "GPULedgerLinkErrors"},
	{Code: throttled, Advice: Watch, Meaning: "heat or a power brake limited the clocks for over five of ten minutes", Source: header, Alert: "GPULedgerGPUThrottled"},
	{Code: clockLow, Advice: Watch, Meaning: "for ten minutes the clock was more than 20 % below the median of the busy GPUs of the pod or job", Source: comparison, Alert: "GPULedgerClockLow"},
	{Code: recoveryReset, Advice: Reset, Meaning: "the driver requires a reset of the GPU or a reboot", Source: header},
	{Code: recoveryOther, Advice: Watch, Meaning: "the driver requires a recovery without a reset, such as draining peer-to-peer jobs", Source: header},
	{Code: rasUncorrectable, Advice: Reset, Meaning: "uncorrectable errors since the driver was loaded", Source: amdgpu, Alert: "GPULedgerRASErrors"},
	{Code: lost, Advice: Reset, Again: Return, Meaning: "the driver no longer lists the GPU", Source: guidelines, Alert: "GPULedgerGPULost"},
	{Code: notAnswering, Advice: Reset, Meaning: "driver calls hang or fail for five minutes", Source: guidelines, Alert: "GPULedgerGPUNotAnswering"},
	{Code: fabricFailed, Advice: Reset, Meaning: "the registration with the NVLink fabric ended with an error", Source: header, Alert: alertNotCompleted},
	{Code: fabricIncomplete, Advice: Watch, Meaning: "the GPU is not registered with its NVLink fabric", Source: header, Alert: alertNotCompleted},
	{Code: fabricProblem, Advice: Watch, Meaning: "the driver reports a problem with the NVLink fabric", Source: header, Alert: "GPULedgerFabricUnhealthy"},
	{Code: gpusMissing, Advice: Reset, Meaning: "the driver does not list all GPUs on the PCI bus of the node", Source: guidelines, Alert: "GPULedgerGPUMissing"},
	{Code: driverDown, Advice: Watch, Meaning: "the driver does not respond", Source: guidelines, Alert: "GPULedgerDriverDown"},
	{Code: notRead, Advice: Watch, Meaning: "the exporter has read no GPU for five minutes", Source: design},
}
