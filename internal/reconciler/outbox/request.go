package outbox

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/common/version"

	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/event"
)

const (
	// timeout is the timeout of a request. The archive responds only after it has written the events to its sinks.
	timeout = 30 * time.Second
	// minWait and maxWait limit the time until a retry.
	minWait = time.Second
	maxWait = time.Minute
	// maxReason limits the logged part of a response, in bytes.
	maxReason = 300
)

// refusal is a response that is not a success.
type refusal struct {
	status string
	reason string
	// retryAfter is the time until a retry, from the header Retry-After.
	retryAfter time.Duration
	// invalid is set if the archive rejects the events as invalid, so that a retry would get the same response.
	invalid bool
}

func (r *refusal) Error() string { return strings.TrimSpace(r.status + ": " + r.reason) }

// deliver sends events until the archive stores them or rejects them as invalid. It returns false if the context ends
// first.
func (o *Outbox) deliver(ctx context.Context, lines [][]byte) bool {
	for wait := minWait; ; wait = min(2*wait, maxWait) {
		err := o.try(ctx, lines)
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		pause := wait/2 + rand.N(wait/2)
		if r := new(refusal); errors.As(err, &r) {
			pause = max(pause, min(r.retryAfter, maxWait))
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// try makes one attempt to send events. It returns no error if the archive rejects the events as invalid.
func (o *Outbox) try(ctx context.Context, lines [][]byte) error {
	err := o.post(ctx, lines)
	n := float64(len(lines))
	switch r := new(refusal); {
	case err == nil:
		o.counts.events.WithLabelValues(delivered).Add(n)
	case errors.As(err, &r) && r.invalid:
		o.counts.events.WithLabelValues(rejected).Add(n)
		o.log.Error("the archive rejects events", "events", len(lines), "err", err)
		err = nil
	case ctx.Err() != nil:
		return err
	default:
		o.counts.failures.Inc()
		if o.client != nil {
			o.client.CloseIdleConnections() // allows the next connection to reach another replica
		}
	}
	switch failed := err != nil; {
	case failed && !o.failed:
		o.log.Warn("cannot send events to the archive, will retry", "err", err)
	case !failed && o.failed:
		o.log.Info("sending events to the archive again")
	}
	o.failed = err != nil
	return err
}

func (o *Outbox) post(ctx context.Context, lines [][]byte) error {
	if o.client == nil {
		client, err := newClient(o.opts)
		if err != nil {
			return err
		}
		o.client = client
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.opts.address(), bytes.NewReader(compress(lines)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Content-Encoding", "gzip")
	if err := o.authorize(req); err != nil {
		return err
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	reason, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason)) // the client reuses the connection only after it has read the body
	if resp.StatusCode/100 == 2 {
		if resp.Header.Get(event.RepeatHeader) == "true" {
			o.again()
		}
		return nil
	}
	r := &refusal{status: resp.Status, reason: string(reason)}
	r.invalid = resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusRequestEntityTooLarge
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		r.retryAfter = time.Duration(seconds) * time.Second
	}
	return r
}

// authorize reads the file with the token for each request.
func (o *Outbox) authorize(req *http.Request) error {
	if o.opts.TokenFile == "" {
		return nil
	}
	text, err := cli.ReadSecret(o.opts.TokenFile)
	if err != nil {
		return fmt.Errorf("--events.token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("--events.token-file: %s must have a bearer token on one line", o.opts.TokenFile)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return nil
}

func compress(lines [][]byte) []byte {
	var body bytes.Buffer
	z, _ := gzip.NewWriterLevel(&body, gzip.BestSpeed) // the error is always nil, because the compression level is valid
	for _, line := range lines {
		_, _ = z.Write(line) // a write to memory cannot fail
	}
	_ = z.Close()
	return body.Bytes()
}

// newClient returns a client that does not follow redirects, because a redirect could send the token to another server.
func newClient(o Options) (*http.Client, error) {
	cfg := config.HTTPClientConfig{TLSConfig: config.TLSConfig{CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile}}
	options := []config.HTTPClientOption{config.WithUserAgent("gpuledger-reconciler/" + version.Version)}
	if o.Dial != nil {
		options = append(options, config.WithDialContextFunc(o.Dial))
	}
	client, err := config.NewClientFromConfig(cfg, "archive", options...)
	if err != nil {
		return nil, fmt.Errorf("create the archive client: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client, nil
}
