package gpu

import "time"

// KernelError describes an error in the kernel's log: either an XID error of a GPU or an SXID error of an NVSwitch.
type KernelError struct {
	// Address is the address on the PCI bus. The address of a GPU contains no function number (0000:3b:00). The address
	// of an NVSwitch contains a function number.
	Address  string
	Code     uint64
	Severity Severity // empty for an error of a GPU
	Sequence uint64   // sequence number of the log record; it increases until the next boot
	At       time.Time
}

// Severity is the severity of an SXID error according to NVIDIA's driver.
type Severity string

// The severities.
const (
	SeverityFatal    Severity = "fatal"
	SeverityNonFatal Severity = "non_fatal"
)

// NVSwitchErrors contains the number of SXID errors with the same code and severity that an NVSwitch reported in this
// boot. It is part of the saved state.
type NVSwitchErrors struct {
	PCIBusID string   `json:"pci_bus_id"`
	Code     uint64   `json:"code"`
	Severity Severity `json:"severity"`
	Count    uint64   `json:"count"`
	// Since is the time of the first error.
	Since time.Time `json:"since"`
	// Records is the sequence number of the last counted record in the kernel's log, plus 1.
	Records uint64 `json:"records"`
}
