package kernellog

import (
	"bytes"
	"regexp"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// xid matches the driver's line, such as
//
//	NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.
//
// Old drivers omit "PCI:", others add the function, and lines of MIG instances add "GPU-I:05".
var xid = regexp.MustCompile(`^NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?(?: [^()]{1,64})?\): ([0-9]{1,9})\b`)

// Parse returns the XID error of a record of /dev/kmsg and its time on the boot clock. A record has
// comma-separated numbers (priority, sequence number, microseconds), a semicolon and the message
// (Documentation/ABI/testing/dev-kmsg). Priorities from 8 on are of user programs.
func Parse(record []byte) (x gpu.KernelXID, at time.Duration, ok bool) {
	head, message, _ := bytes.Cut(record, []byte(";"))
	match := xid.FindSubmatch(message)
	fields := bytes.Split(head, []byte(","))
	if match == nil || len(fields) < 3 || len(fields[0]) != 1 || fields[0][0] >= '8' {
		return x, 0, false
	}
	sequence, err1 := strconv.ParseUint(string(fields[1]), 10, 64)
	µs, err2 := strconv.ParseUint(string(fields[2]), 10, 50)
	code, err3 := strconv.ParseUint(string(match[2]), 10, 32)
	if err1 != nil || err2 != nil || err3 != nil {
		return x, 0, false
	}
	return gpu.KernelXID{Address: string(match[1]), Code: code, Sequence: sequence}, time.Duration(µs) * time.Microsecond, true
}
