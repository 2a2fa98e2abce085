package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/permanent"
)

const (
	// attempts is the maximum number of times that a batch is sent.
	attempts = 8
	// maxBackoff is the longest wait between two attempts, unless the server requests a longer wait.
	maxBackoff = time.Minute
	// maxRetryAfter is the longest wait that a server can request.
	maxRetryAfter = 5 * time.Minute
)

// temporary is an error after which the batch is sent again.
type temporary struct {
	error
	after time.Duration // wait that the server requested; 0 if it requested no wait
	final bool          // after the last attempt, the error counts as permanent
}

func (t *temporary) Unwrap() error { return t.error }

func (s *Sink) send(ctx context.Context, b batch) error {
	backoff := time.Second
	for n := 1; ; n++ {
		err := s.post(ctx, b)
		var again *temporary
		switch {
		case !errors.As(err, &again):
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case n == attempts:
			return permanent.If(again.final, fmt.Errorf("%d attempts: %w", n, err))
		case again.after > maxRetryAfter:
			return fmt.Errorf("%w: the server requests a retry only after %s", err, again.after)
		}
		if wait := wait(ctx, max(again.after, backoff/2+rand.N(backoff/2))); wait != nil {
			return fmt.Errorf("%w: %w", wait, err)
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Sink) post(ctx context.Context, b batch) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.config.URL, bytes.NewReader(b.body))
	if err != nil {
		return err
	}
	request.Header = b.header.Clone()
	request.Header.Set("Idempotency-Key", b.key)
	token, err := s.token()
	if err != nil {
		return err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := s.client.Do(request)
	if err != nil {
		err = fmt.Errorf("post to %s: %w", request.URL.Host, cause(err))
		if errors.As(err, new(*tls.CertificateVerificationError)) {
			return err
		}
		return &temporary{error: err}
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	return check(request.URL.Host, response, text)
}

// cause removes the URL from an error. The parameters of the URL may be secret.
func cause(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}

// check returns an error unless the status means success. The error quotes the beginning of the body.
func check(host string, response *http.Response, body []byte) error {
	status := response.StatusCode
	if status/100 == 2 {
		return nil
	}
	text := strings.TrimSpace(string(body))
	err := fmt.Errorf("%s returns %s: %.200q", host, response.Status, text)
	switch {
	case status/100 == 3:
		return fmt.Errorf("%s redirects to another URL: set --http.url to that URL", host)
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status/100 == 5:
		// The request may conflict with an earlier request with this key, or with an existing row. With an existing
		// row, every attempt fails, so the error becomes permanent after the last attempt.
		return &temporary{error: err, after: retryAfter(response.Header.Get("Retry-After")), final: status == http.StatusConflict}
	}
	return permanent.If(permanent.Status(status), err)
}

// retryAfter parses the header Retry-After, which contains seconds or a date. It returns 0 if the header is invalid.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), 1<<31)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
