package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/common/version"

	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/internal/inventory"
)

const (
	// maxPage is the maximum size of a page in bytes. It is larger than any inventory, and is small enough to keep
	// hundreds of pages in memory at the same time.
	maxPage = 512 << 10
	// dialTimeout is short, because a removed node never responds.
	dialTimeout = 2 * time.Second
)

// These are the errors of [Client.Read] and [Client.ReadHealth].
var (
	ErrUnreachable = errors.New("exporter not reachable")
	ErrStatus      = errors.New("exporter rejected the request")
	ErrGarbage     = errors.New("invalid response from exporter")
)

// Client reads inventory pages and health pages. It is safe for concurrent use.
type Client struct {
	http    *http.Client
	scheme  string
	timeout time.Duration
}

// NewClient returns a client that follows no redirects and accepts no compression. It keeps no connections open,
// because minutes pass until the next request to the same exporter.
func NewClient(o Options) (*Client, error) {
	cfg := config.HTTPClientConfig{
		TLSConfig: config.TLSConfig{CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile, ServerName: o.ServerName},
	}
	if o.Username != "" {
		cfg.BasicAuth = &config.BasicAuth{Username: o.Username, PasswordFile: o.PasswordFile}
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	client, err := config.NewClientFromConfig(cfg, "exporter", config.WithKeepAlivesDisabled(), config.WithHTTP2Disabled(),
		config.WithDialContextFunc(dialer.DialContext), config.WithUserAgent("gpuledger-reconciler/"+version.Version))
	if err != nil {
		return nil, fmt.Errorf("create the exporter client: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &Client{http: client, scheme: "http", timeout: o.Timeout}
	if o.TLS {
		c.scheme = "https"
	}
	return c, nil
}

// Read requests the inventory of an exporter. The error is [ErrUnreachable], [ErrStatus] or [ErrGarbage]. If there is
// an error, the page is not valid.
func (c *Client) Read(ctx context.Context, t Target) (inventory.Page, error) {
	return read(ctx, c, t, inventory.Path, inventory.Decode)
}

// ReadHealth requests the health page of an exporter. It returns the same errors as Read.
func (c *Client) ReadHealth(ctx context.Context, t Target) (health.Page, error) {
	return read(ctx, c, t, health.Path, health.Decode)
}

func read[T any](ctx context.Context, c *Client, t Target, path string, decode func(io.Reader) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var none T
	where := url.URL{Scheme: c.scheme, Host: t.Address, Path: path}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), http.NoBody)
	if err != nil {
		return none, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return none, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return none, fmt.Errorf("%w: status %d", ErrStatus, resp.StatusCode)
	}
	page, err := decode(&io.LimitedReader{R: resp.Body, N: maxPage})
	switch {
	case ctx.Err() != nil:
		return none, fmt.Errorf("%w in time: %w", ErrUnreachable, ctx.Err())
	case err != nil:
		return none, fmt.Errorf("%w: %w", ErrGarbage, err)
	}
	return page, nil
}
