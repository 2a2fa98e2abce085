package kernellog

import (
	"bytes"
	"regexp"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// xid matches the driver's line about an XID error, such as
//
//	NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.
//
// Old drivers omit "PCI:". Some drivers add the PCI function. A line about a MIG instance contains, for example,
// "GPU-I:05".
var xid = regexp.MustCompile(`^NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?(?: [^()]{1,64})?\): ([0-9]{1,9})\b`)

// sxid matches the driver's first line about an NVSwitch error, such as
//
//	nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)
//
// Further lines contain details. They do not match, because they do not contain the severity as a word.
var sxid = regexp.MustCompile(`^nvidia-nvswitch[0-9]{1,3}: SXid \(PCI:([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\): ([0-9]{1,9}), (Non-fatal|Fatal)\b`)

var severities = map[string]gpu.Severity{"Fatal": gpu.SeverityFatal, "Non-fatal": gpu.SeverityNonFatal}

// Parse returns the error that a record of /dev/kmsg reports, and the time of the record on the boot clock. A record
// has comma-separated numbers (priority, sequence number, microseconds), a semicolon and the message
// (Documentation/ABI/testing/dev-kmsg). Programs cannot forge an error, because the kernel gives their records a
// priority of 8 or higher.
func Parse(record []byte) (x gpu.KernelError, at time.Duration, ok bool) {
	head, message, _ := bytes.Cut(record, []byte(";"))
	match := xid.FindSubmatch(message)
	if match == nil {
		if match = sxid.FindSubmatch(message); match != nil {
			x.Severity = severities[string(match[3])]
		}
	}
	fields := bytes.Split(head, []byte(","))
	if match == nil || len(fields) < 3 || len(fields[0]) != 1 || fields[0][0] >= '8' {
		return gpu.KernelError{}, 0, false
	}
	sequence, err1 := strconv.ParseUint(string(fields[1]), 10, 64)
	µs, err2 := strconv.ParseUint(string(fields[2]), 10, 50)
	code, err3 := strconv.ParseUint(string(match[2]), 10, 32)
	if err1 != nil || err2 != nil || err3 != nil {
		return gpu.KernelError{}, 0, false
	}
	x.Address, x.Code, x.Sequence = string(match[1]), code, sequence
	return x, time.Duration(µs) * time.Microsecond, true
}
