// Package web serves answers from an archive as pages. A page shows the answer of a command. Its query string contains
// flags of this command, so the page and the command always show the same rows.
package web

import (
	"errors"
	"flag"
	"fmt"

	"github.com/gpuledger/gpuledger/internal/archive/address"
)

// Config contains the values of the flags for the pages.
type Config struct {
	Pages bool
	// Settings is the path of a file that sets flags of questions, such as prices.
	Settings string
	// Readers is the path of a file that selects the data for each reader. Without this file, every reader sees all
	// data.
	Readers string
	// If Insecure is set, other machines can read the pages without credentials.
	Insecure bool
	LogReads bool
}

// Register adds the flags with their defaults.
func (c *Config) Register(fs *flag.FlagSet) {
	fs.BoolVar(&c.Pages, "web.pages", false, "with the command run, serve the answers to questions as web pages (serve always does); except on loopback, readers need credentials")
	fs.StringVar(&c.Settings, "web.pages.config", "", "YAML `file` that sets flags of questions, such as prices, in the format of a question's --config")
	fs.StringVar(&c.Readers, "web.pages.readers", "", "YAML `file` with the teams, namespaces and clusters that each reader sees; without this file, all readers see everything")
	fs.BoolVar(&c.Insecure, "web.pages.insecure", false, "serve the pages without credentials; every client that can reach the address can then read the archive")
	fs.BoolVar(&c.LogReads, "web.pages.log-reads", false, "log each read of a page with reader, client address, page, status and time")
}

// Validate returns an error if a required flag is missing, or if other machines could read pages without credentials.
// credentials is set if the server checks passwords or certificates of clients.
func (c *Config) Validate(addresses []string, credentials bool) error {
	switch {
	case !c.Pages && (c.Settings != "" || c.Readers != "" || c.Insecure || c.LogReads):
		return errors.New("--web.pages.config, --web.pages.readers, --web.pages.insecure and --web.pages.log-reads require --web.pages or the command serve")
	case c.Readers != "":
		_, err := readReaders(c.Readers)
		return err
	case !c.Pages || c.Insecure || credentials:
		return nil
	}
	for _, listen := range addresses {
		if !address.ListensOnLoopback(listen) {
			return fmt.Errorf("--web.listen-address=%s would serve the books to every client on the network: set --web.pages.readers; "+
				"or set basic_auth_users or client_auth_type: RequireAndVerifyClientCert in --web.config.file; or allow access without credentials with --web.pages.insecure", listen)
		}
	}
	return nil
}
