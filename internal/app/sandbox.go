package app

import "github.com/gpuledger/gpuledger/internal/sandbox"

// dns is the TCP port of DNS servers. Clients use TCP if a response is too long for UDP.
const dns = 53

// SandboxRules returns the operations that the exporter needs in addition to reading files.
func (c *Config) SandboxRules() sandbox.Rules {
	rules := sandbox.Rules{State: c.StatePath, Features: c.Features, Devices: "/dev"}
	if port := c.DCGM.address.Port(); port != 0 {
		rules.Ports = []uint16{port, dns}
	}
	return rules
}

// FilterRules returns the system calls that the exporter needs in addition to the calls that the filter allows by
// default.
func (c *Config) FilterRules() sandbox.FilterRules {
	return sandbox.FilterRules{VSOCK: c.DCGM.address.IsVSOCK()}
}
