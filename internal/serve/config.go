// Package serve implements the HTTP server of all programs. It contains the server's flags, TLS, basic auth and limits
// for clients. While another program uses an address of the server, it retries.
package serve

import (
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v2"

	"github.com/gpuledger/gpuledger/internal/cli"
)

// Config is the configuration of the server.
type Config struct {
	ListenAddresses []string
	WebConfigFile   string
	// MaxConnections limits the number of open connections, and MaxRequests limits the number of
	// concurrent requests. A single client address may use only half of each limit.
	MaxConnections int
	MaxRequests    int
}

// Register adds the flags with their defaults. The default of --web.listen-address is the given
// address.
func (c *Config) Register(fs *flag.FlagSet, address string) {
	c.ListenAddresses = []string{address}
	fs.Var(&addresses{list: &c.ListenAddresses}, "web.listen-address", "`address` to serve on, host:port; repeatable")
	fs.StringVar(&c.WebConfigFile, "web.config.file", "", "`file` with TLS and basic auth settings, in the format of the Prometheus exporter toolkit")
	fs.IntVar(&c.MaxConnections, "web.max-connections", 256, "`maximum` number of open connections, of which one client address may use half; a new connection replaces an idle connection of the address with the most connections")
	fs.IntVar(&c.MaxRequests, "web.max-requests", 16, "`maximum` number of concurrent requests, of which one client address may use half; further requests wait and get status 503 after 5 seconds; probes have a separate limit")
}

// Validate checks values that package flag cannot check.
func (c *Config) Validate() error {
	if c.MaxConnections < 1 {
		return fmt.Errorf("--web.max-connections=%d: must be at least 1", c.MaxConnections)
	}
	if c.MaxRequests < 1 {
		return fmt.Errorf("--web.max-requests=%d: must be at least 1", c.MaxRequests)
	}
	if err := web.Validate(c.WebConfigFile); err != nil {
		return fmt.Errorf("--web.config.file=%s: %s", c.WebConfigFile, oneLine(err))
	}
	return nil
}

// Web contains the settings in the file of --web.config.file that this program itself reads. The exporter toolkit reads
// the whole file.
type Web struct {
	Users map[string]string `yaml:"basic_auth_users"`
	TLS   struct {
		Key        string `yaml:"key"`
		KeyFile    string `yaml:"key_file"`
		ClientAuth string `yaml:"client_auth_type"`
	} `yaml:"tls_server_config"`
}

// VerifiesClients reports whether each client must present a certificate that the server verifies.
func (w *Web) VerifiesClients() bool { return w.TLS.ClientAuth == "RequireAndVerifyClientCert" }

// Web reads --web.config.file. It returns an empty value if no file is configured. [Config.Validate]
// returns the error if the file is invalid.
func (c *Config) Web() (web Web) {
	if c.WebConfigFile == "" {
		return web
	}
	text, err := os.ReadFile(c.WebConfigFile)
	if err != nil || yaml.Unmarshal(text, &web) != nil {
		return Web{}
	}
	return web
}

// ValidateKey returns an error if other users may read or change the file with the server's private
// key.
func (c *Config) ValidateKey() error {
	switch web := c.Web(); {
	case web.TLS.Key != "":
		return cli.CheckSecret("web.config.file", c.WebConfigFile)
	case web.TLS.KeyFile == "" || filepath.IsAbs(web.TLS.KeyFile):
		return cli.CheckSecret("web.config.file", web.TLS.KeyFile)
	default:
		return cli.CheckSecret("web.config.file", filepath.Join(filepath.Dir(c.WebConfigFile), web.TLS.KeyFile))
	}
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// The first value on the command line replaces the default.
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
		return fmt.Errorf("must be host:port or :port: %w", err)
	}
	if !a.given {
		*a.list, a.given = nil, true
	}
	*a.list = append(*a.list, s)
	return nil
}
