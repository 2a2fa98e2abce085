// Package serve is the HTTP server of all programs: its flags, TLS and basic auth by the
// exporter toolkit, and retries while its address is in use.
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
	// MaxConnections limits the open connections, and MaxRequests limits the concurrent requests. One
	// client address can use half of each limit.
	MaxConnections int
	MaxRequests    int
}

// Register adds the flags with their defaults. address is the default address.
func (c *Config) Register(fs *flag.FlagSet, address string) {
	c.ListenAddresses = []string{address}
	fs.Var(&addresses{list: &c.ListenAddresses}, "web.listen-address", "`address` to serve on, host:port; repeatable")
	fs.StringVar(&c.WebConfigFile, "web.config.file", "", "`file` with TLS and basic auth settings of the exporter toolkit")
	fs.IntVar(&c.MaxConnections, "web.max-connections", 256, "`maximum` number of open connections, half of them for one client address; a new connection replaces an idle connection of the address with the most connections")
	fs.IntVar(&c.MaxRequests, "web.max-requests", 16, "`maximum` number of concurrent requests, half of them for one client address, without probes; others wait and get status 503 after 5 seconds")
}

// Validate makes the checks that the flag package cannot make.
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

// Web is the part of the file in --web.config.file that programs check themselves.
type Web struct {
	Users map[string]string `yaml:"basic_auth_users"`
	TLS   struct {
		Key        string `yaml:"key"`
		KeyFile    string `yaml:"key_file"`
		ClientAuth string `yaml:"client_auth_type"`
	} `yaml:"tls_server_config"`
}

// VerifiesClients reports whether a connection requires a verified certificate of the client.
func (w *Web) VerifiesClients() bool { return w.TLS.ClientAuth == "RequireAndVerifyClientCert" }

// Web reads --web.config.file. It returns an empty value if there is no file. [Config.Validate] returns the
// errors of an invalid file.
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

// ValidateKey returns an error if other users may read or change the private key of the server.
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

// addresses is a repeatable flag. The first value replaces the default.
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
