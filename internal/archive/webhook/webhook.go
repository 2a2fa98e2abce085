// Package webhook sends the archive to an HTTP server. It posts the rows of an hour in batches. Each batch has an
// idempotency key, so that a receiver can ignore duplicates. The last batch of an hour contains the hour's row in the
// manifest. A receiver that has this row has the complete hour.
package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/address"
	"github.com/gpuledger/gpuledger/internal/archive/manifest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/cli"
)

// Config contains the values of the flags.
type Config struct {
	URL, Format, TokenFile, CAFile, Manifest string
	Batch                                    int
	Timeout                                  time.Duration
	// Transport sends the requests. If it is nil, the sink creates one.
	Transport http.RoundTripper
	// Memory records the sent hours if Manifest is empty. Later sinks use the same Memory.
	Memory *manifest.Manifest
}

// Register adds the flags with their defaults.
func (c *Config) Register(fs *flag.FlagSet) {
	c.Memory = &manifest.Manifest{}
	fs.StringVar(&c.URL, "http.url", "", "`URL` to post the rows to")
	fs.StringVar(&c.Format, "http.format", "ndjson", "`format` of the requests: ndjson for all tables as JSON lines, or gpuid for gpuid's arrays of serial numbers")
	fs.StringVar(&c.TokenFile, "http.token-file", "", "`file` with a bearer token, read for every request; only for https or loopback")
	fs.StringVar(&c.CAFile, "http.ca-file", "", "CA bundle `file` that verifies the server's certificate")
	fs.StringVar(&c.Manifest, "http.manifest", "", "`file` that records which hours were sent; without this file, the command once sends the whole range")
	fs.IntVar(&c.Batch, "http.batch", 1000, "`number` of rows in a request")
	fs.DurationVar(&c.Timeout, "http.timeout", 30*time.Second, "`time` limit of a request")
}

// Sink posts the rows of hours.
type Sink struct {
	config   Config
	client   *http.Client
	manifest *manifest.Manifest
	split    func(h *table.Hour, size int) ([]batch, error)
}

var formats = map[string]func(h *table.Hour, size int) ([]batch, error){"ndjson": ndjson, "gpuid": readings}

// Open returns a sink. It does not connect.
func Open(c Config) (*Sink, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Sink{config: c, split: formats[c.Format], manifest: c.Memory}
	if _, err := s.token(); err != nil {
		return nil, err
	}
	transport := c.Transport
	if transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		pool, err := c.pool()
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		transport = t
	}
	// Redirects are not followed. A redirect could send the token to another host, or change POST to GET.
	s.client = &http.Client{Transport: transport, Timeout: c.Timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if c.Manifest != "" {
		filed, err := manifest.Open(c.Manifest)
		if err != nil {
			return nil, err
		}
		s.manifest = filed
	}
	return s, nil
}

// Validate checks the flags. It accepts all values if no URL is set. Errors do not contain the URL, because it may
// contain a password.
func (c *Config) Validate() error {
	if c.URL == "" {
		return nil
	}
	at, err := url.Parse(c.URL)
	switch {
	case err != nil || !address.IsHTTP(at) || at.User != nil:
		return errors.New("--http.url must be a URL such as https://assets.example.com/gpus, without credentials")
	case formats[c.Format] == nil:
		return fmt.Errorf("--http.format=%s: must be ndjson or gpuid", c.Format)
	case c.Batch < 1:
		return errors.New("--http.batch must be at least 1")
	case c.Timeout <= 0:
		return errors.New("--http.timeout must be positive")
	case c.TokenFile != "" && !address.IsPrivate(at):
		return errors.New("--http.url must be https with --http.token-file, because others could read the token otherwise")
	}
	return cli.CheckSecret("http.token-file", c.TokenFile)
}

// pool returns the CAs that verify the server. Nil means the CAs of the system.
func (c *Config) pool() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no PEM certificate", c.CAFile)
	}
	return pool, nil
}

func (s *Sink) token() (string, error) {
	if s.config.TokenFile == "" {
		return "", nil
	}
	text, err := cli.ReadSecret(s.config.TokenFile)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s must have a bearer token on one line", s.config.TokenFile)
	}
	return token, nil
}

// Filed returns the row of an hour in the manifest. It returns zero if the hour was not sent.
func (s *Sink) Filed(_ context.Context, cluster string, hour time.Time) (table.Filed, error) {
	return s.manifest.Filed(cluster, hour), nil
}

// Clusters returns the first and last sent hour of each cluster.
func (s *Sink) Clusters(context.Context, time.Time) (map[string]table.Span, error) {
	return s.manifest.Clusters(), nil
}

// Replace posts an hour. After an error, the next call sends all batches of the hour again.
func (s *Sink) Replace(ctx context.Context, h *table.Hour) error {
	batches, err := s.split(h, s.config.Batch)
	if err != nil {
		return err
	}
	for i, b := range batches {
		if err := s.send(ctx, b); err != nil {
			return fmt.Errorf("batch %d of %d: %w", i+1, len(batches), err)
		}
	}
	return s.manifest.Add(h)
}

// Close closes the manifest.
func (s *Sink) Close() error {
	s.client.CloseIdleConnections()
	return s.manifest.Close()
}
