package chain

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/common/config"

	"github.com/gpuledger/gpuledger/internal/archive/address"
)

const (
	// timeout limits one request.
	timeout = 10 * time.Second
	// attempts is the maximum number of attempts to send a checkpoint in one round. The delay between two attempts is
	// first firstDelay, and doubles after each attempt.
	attempts   = 3
	firstDelay = time.Second
)

type server struct {
	url        *url.URL
	httpConfig string
	dial       config.DialContextFunc // nil means the network
}

// client follows no redirects. A redirect could send the credentials to another URL, or change POST to GET.
func (s *server) client() (*http.Client, error) {
	settings := config.DefaultHTTPClientConfig
	if s.httpConfig != "" {
		of, _, err := config.LoadHTTPConfigFile(s.httpConfig)
		if err != nil {
			return nil, err
		}
		settings = *of
	}
	options := []config.HTTPClientOption{config.WithKeepAlivesDisabled()}
	if s.dial != nil {
		options = append(options, config.WithDialContextFunc(s.dial))
	}
	c, err := config.NewClientFromConfig(settings, "gpuledger-archive", options...)
	if err != nil {
		return nil, err
	}
	c.Timeout = timeout
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// publish repeats the request after network errors and server errors.
func (s *server) publish(ctx context.Context, c Checkpoint) error {
	line, err := c.line()
	if err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	delay := firstDelay
	for n := 1; ; n++ {
		_, err := s.request(ctx, client, http.MethodPost, line)
		if !errors.As(err, new(temporary)) || n == attempts {
			return err
		}
		select {
		case <-time.After(delay):
			delay *= 2
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func (s *server) published(ctx context.Context) ([]Checkpoint, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	text, err := s.request(ctx, client, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	return parseCheckpoints(text)
}

// If an error is temporary, the request is sent again.
type temporary struct{ error }

func (t temporary) Unwrap() error { return t.error }

// The header Content-Digest (RFC 9530) contains the SHA-256 of the body, if there is a body.
func (s *server) request(ctx context.Context, client *http.Client, method string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, address.Hide(s.url, err)
	}
	if body != nil {
		sum := sha256.Sum256(body)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	}
	response, err := client.Do(r)
	if err != nil {
		hidden := address.Hide(s.url, err)
		switch {
		case errors.As(err, new(x509.UnknownAuthorityError)):
			return nil, fmt.Errorf("%w: set tls_config.ca_file in the file of --chain.http.config.file to the CA of this server", hidden)
		case errors.As(err, new(x509.HostnameError)):
			return nil, fmt.Errorf("%w: use a name of the certificate in the URL, or set tls_config.server_name in the file of --chain.http.config.file", hidden)
		case errors.As(err, new(*tls.CertificateVerificationError)):
			return nil, hidden
		}
		return nil, temporary{hidden}
	}
	defer func() { _ = response.Body.Close() }()
	switch status := response.StatusCode; {
	case status/100 == 3:
		return nil, fmt.Errorf("%s redirects to another URL, but this program does not follow redirects: set the other URL", address.Public(s.url))
	case status == http.StatusTooManyRequests, status/100 == 5:
		return nil, temporary{fmt.Errorf("%s: status %s", address.Public(s.url), response.Status)}
	case status/100 != 2:
		return nil, fmt.Errorf("%s: status %s", address.Public(s.url), response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxCheckpoints))
}
