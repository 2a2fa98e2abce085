package gpu

import "time"

// KernelError describes an error in the kernel's log: either an XID error of a GPU or an SXID error of an NVSwitch.
type KernelError struct {
	// Address is the PCI address. It contains a function number for an NVSwitch (0000:c1:00.0), but not for a GPU
	// (0000:3b:00).
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

// NVSwitchErrors counts the SXID errors of one NVSwitch that have one code and one severity. Counting begins when the
// machine boots, and the state file contains the count.
type NVSwitchErrors struct {
	PCIBusID string   `json:"pci_bus_id"`
	Code     uint64   `json:"code"`
	Severity Severity `json:"severity"`
	Count    uint64   `json:"count"`
	// Since is the time of the first error.
	Since time.Time `json:"since"`
	// Records is one more than the sequence number of the last kernel log record that was counted.
	Records uint64 `json:"records"`
}
