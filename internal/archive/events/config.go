package events

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/gpuledger/gpuledger/internal/archive/address"
)

// Config contains the values of the flags.
type Config struct {
	Receive bool
	// TokenFile is the file with the tokens of the clusters. If it is empty, requests without a token are accepted.
	TokenFile string
	// DeadLetter is the file for events that a sink rejects, and for events that still wait at the end of the program.
	// Without a file, these events are dropped.
	DeadLetter string
	// If Insecure is set, requests from other machines need no credentials.
	Insecure bool
}

// Register adds the flags with their defaults.
func (c *Config) Register(fs *flag.FlagSet) {
	fs.BoolVar(&c.Receive, "events.receive", false, "with the command run, receive events from gpuledger-reconciler; except on loopback, senders need credentials")
	fs.StringVar(&c.TokenFile, "events.token-file", "", "`file` with the bearer tokens of event senders, read for every request; each line contains the name of a cluster and a token")
	fs.StringVar(&c.DeadLetter, "events.dead-letter", "", "`file` for events that a sink rejects, and for events that wait for a sink when the program ends; the default is dead-letters.jsonl in --folder; without --folder these events are dropped")
	fs.BoolVar(&c.Insecure, "events.insecure", false, "receive events without credentials; every client that can reach the address can then write events for any cluster")
}

// Validate makes the checks that the flag package cannot make. A missing token file is valid, because it may appear
// later.
func (c *Config) Validate() error {
	switch {
	case (c.TokenFile != "" || c.Insecure) && !c.Receive:
		return errors.New("--events.token-file and --events.insecure require --events.receive")
	case c.TokenFile != "" && c.Insecure:
		return errors.New("--events.insecure and --events.token-file cannot be used together")
	case c.TokenFile == "":
		return nil
	}
	err := newAccess(c.TokenFile, nil).read()
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("--events.token-file: %w", err)
}

// ValidateAddresses returns an error if another machine could send events without credentials. certificates is set if
// the server requires verified certificates of clients.
func (c *Config) ValidateAddresses(addresses []string, certificates bool) error {
	if !c.Receive || c.TokenFile != "" || c.Insecure || certificates {
		return nil
	}
	for _, listen := range addresses {
		if !address.ListensOnLoopback(listen) {
			return fmt.Errorf("--web.listen-address=%s would accept events from every client on the network: set --events.token-file; "+
				"or set client_auth_type: RequireAndVerifyClientCert in --web.config.file; or accept events without credentials with --events.insecure", listen)
		}
	}
	return nil
}
