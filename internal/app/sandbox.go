package app

import "github.com/gpuledger/gpuledger/internal/sandbox"

// dns is the port of DNS servers. They use TCP for responses that are too long for UDP.
const dns = 53

// SandboxRules returns the permissions that the exporter needs in addition to reading files.
func (c *Config) SandboxRules() sandbox.Rules {
	rules := sandbox.Rules{State: c.StatePath, Features: c.Features, Devices: "/dev"}
	if port := c.DCGM.address.Port(); port != 0 {
		rules.Ports = []uint16{port, dns}
	}
	return rules
}

// FilterRules returns the exceptions from the system call filter.
func (c *Config) FilterRules() sandbox.FilterRules {
	return sandbox.FilterRules{VSOCK: c.DCGM.address.IsVSOCK()}
}
