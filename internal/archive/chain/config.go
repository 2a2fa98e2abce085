package chain

import (
	"errors"
	"flag"
	"fmt"
	"path"
	"strings"

	"github.com/prometheus/common/config"

	"github.com/gpuledger/gpuledger/internal/cli"
)

// Config contains the values of the flags.
type Config struct {
	// Key is the file with the private key. Without a key, there is no chain.
	Key     string
	Publish []string
	// Name identifies the archive in its checkpoints. It may be empty.
	Name string
	// HTTPConfig is the file with settings for requests to Publish. It may be empty.
	HTTPConfig string
}

// Register adds the flags.
func (c *Config) Register(fs *flag.FlagSet) {
	fs.StringVar(&c.Key, "chain.key", "", "`file` with the Ed25519 private key that signs the chain of filed hours, in PEM as openssl genpkey writes it")
	fs.Func("chain.publish", "`URL` to publish signed checkpoints of the chain to, repeatable: file:///FILE appends a line, https://… posts JSON, configmap:NAMESPACE/NAME updates a ConfigMap", func(text string) error {
		_, err := parsePlace(text, "")
		c.Publish = append(c.Publish, text)
		return err
	})
	fs.StringVar(&c.Name, "chain.name", "", "`name` of this archive in its checkpoints, if several archives publish to the same place: the checkpoints then contain NAME/postgres for the sink postgres")
	fs.StringVar(&c.HTTPConfig, "chain.http.config.file", "", "`file` with TLS, authentication and headers for https://… in --chain.publish, in the format of promtool's --http.config.file")
}

// Validate checks the flags.
func (c *Config) Validate() error {
	if c.Key == "" && len(c.Publish) > 0 {
		return errors.New("--chain.publish requires --chain.key")
	}
	if c.Name != "" && (len(c.Publish) == 0 || strings.Contains(c.Name, "/")) {
		return errors.New("--chain.name requires --chain.publish, and must not contain a slash")
	}
	if c.HTTPConfig != "" {
		if len(c.Publish) == 0 {
			return errors.New("--chain.http.config.file requires --chain.publish")
		}
		if _, _, err := config.LoadHTTPConfigFile(c.HTTPConfig); err != nil {
			return fmt.Errorf("--chain.http.config.file=%s: %w", c.HTTPConfig, err)
		}
	}
	return cli.CheckSecret("chain.key", c.Key)
}

// SinkName returns the name of a sink in checkpoints.
func (c *Config) SinkName(sink string) string { return path.Join(c.Name, sink) }

// Signer reads the key. It returns nil if no key is set.
func (c *Config) Signer() (*Signer, error) {
	if c.Key == "" {
		return nil, nil
	}
	s, err := ReadSigner(c.Key)
	if err != nil {
		return nil, fmt.Errorf("--chain.key: %w", err)
	}
	return s, nil
}
