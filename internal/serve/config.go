// Package serve is the HTTP server of the programs: its flags, TLS and basic auth
// as the exporter toolkit configures them, and an address that is tried again.
package serve

import (
	"flag"
	"fmt"
	"net"
	"strings"

	"github.com/prometheus/exporter-toolkit/web"
)

// Config is what the flags say of the server.
type Config struct {
	ListenAddresses []string
	WebConfigFile   string
	// MaxConnections limits the open connections, MaxRequests the requests that are
	// answered at once. One client address gets half of each.
	MaxConnections int
	MaxRequests    int
}

// Register adds the flags, with their defaults.
func (c *Config) Register(fs *flag.FlagSet) {
	c.ListenAddresses = []string{":9840"}
	fs.Var(&addresses{list: &c.ListenAddresses}, "web.listen-address", "`address` to serve on, host:port; may be given more than once")
	fs.StringVar(&c.WebConfigFile, "web.config.file", "", "`file` with TLS and basic auth settings of the exporter toolkit")
	fs.IntVar(&c.MaxConnections, "web.max-connections", 256, "`number` of open connections, half of them for one client address; a new one closes an idle one of the address with the most")
	fs.IntVar(&c.MaxRequests, "web.max-requests", 16, "`number` of requests that are answered at once, half of them for one client address, probes not counted; others wait, and get status 503 after 5 seconds")
}

// Validate checks what the flag package cannot.
func (c *Config) Validate() error {
	if c.MaxConnections < 1 {
		return fmt.Errorf("--web.max-connections=%d: want at least 1", c.MaxConnections)
	}
	if c.MaxRequests < 1 {
		return fmt.Errorf("--web.max-requests=%d: want at least 1", c.MaxRequests)
	}
	if err := web.Validate(c.WebConfigFile); err != nil {
		return fmt.Errorf("--web.config.file=%s: %s", c.WebConfigFile, oneLine(err))
	}
	return nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// addresses is a flag that may be given more than once. The first one replaces
// the default.
type addresses struct {
	list  *[]string
	given bool
}

func (a *addresses) String() string {
	if a.list == nil {
		return ""
	}
	return strings.Join(*a.list, ",")
}

func (a *addresses) Set(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("want host:port or :port: %w", err)
	}
	if !a.given {
		*a.list, a.given = nil, true
	}
	*a.list = append(*a.list, s)
	return nil
}
