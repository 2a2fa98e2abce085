package events

import (
	"errors"
	"flag"
)

// Config is the configuration from the flags.
type Config struct {
	Receive bool
	// TokenFile is read for each request; empty accepts requests without a token.
	TokenFile string
}

// Register adds the flags with their defaults.
func (c *Config) Register(fs *flag.FlagSet) {
	fs.BoolVar(&c.Receive, "events.receive", false, "receive events from gpuledger-reconciler; for run")
	fs.StringVar(&c.TokenFile, "events.token-file", "", "`file` with the bearer token that senders of events must have; default accepts all senders")
}

// Validate checks what the flag package cannot.
func (c *Config) Validate() error {
	if c.TokenFile != "" && !c.Receive {
		return errors.New("--events.token-file requires --events.receive")
	}
	return nil
}
