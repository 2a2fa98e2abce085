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

	"github.com/gpuledger/gpuledger/internal/inventory"
)

const (
	// maxPage is more than any inventory has, and small enough for hundreds at once.
	maxPage = 512 << 10
	// dialTimeout is short: a node that is gone answers nothing at all.
	dialTimeout = 2 * time.Second
)

// The errors of a reading, by what to look at.
var (
	ErrUnreachable = errors.New("exporter does not answer")
	ErrStatus      = errors.New("exporter refuses")
	ErrGarbage     = errors.New("exporter answers something else")
)

// Client reads inventories. It is safe for concurrent use.
type Client struct {
	http    *http.Client
	scheme  string
	timeout time.Duration
}

// NewClient returns a client. Redirects are not followed, nothing that is compressed is
// asked for or unpacked, and connections are not kept: the same exporter is asked again
// in minutes.
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
		return nil, fmt.Errorf("make a client of the exporters: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &Client{http: client, scheme: "http", timeout: o.Timeout}
	if o.TLS {
		c.scheme = "https"
	}
	return c, nil
}

// Read asks one exporter for its inventory. The error is one of [ErrUnreachable],
// [ErrStatus] and [ErrGarbage]; with one of them the page says nothing.
func (c *Client) Read(ctx context.Context, t Target) (inventory.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	where := url.URL{Scheme: c.scheme, Host: t.Address, Path: inventory.Path}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), http.NoBody)
	if err != nil {
		return inventory.Page{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return inventory.Page{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return inventory.Page{}, fmt.Errorf("%w: status %d", ErrStatus, resp.StatusCode)
	}
	page, err := inventory.Decode(&io.LimitedReader{R: resp.Body, N: maxPage})
	switch {
	case ctx.Err() != nil:
		return inventory.Page{}, fmt.Errorf("%w in time: %w", ErrUnreachable, ctx.Err())
	case err != nil:
		return inventory.Page{}, fmt.Errorf("%w: %w", ErrGarbage, err)
	}
	return page, nil
}
