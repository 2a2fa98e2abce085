package store

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/address"
)

// ErrUnreachable means that the program cannot connect to the store.
var ErrUnreachable = errors.New("check that the store runs, and set --store.url to its address")

func (s *Store) send(ctx context.Context, at *url.URL, form url.Values, decode func(body io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := s.client.Do(request)
	if err != nil {
		return unreachable(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxQuoted))
		return fmt.Errorf("%sHTTP status %d %s: %q%s", redirected(at, response), response.StatusCode, http.StatusText(response.StatusCode), text, advice(response.StatusCode))
	}
	body := bufio.NewReader(response.Body)
	if isPage(response, body) {
		return fmt.Errorf("%sthe response is a web page, perhaps a login page: set --store.url to the query API itself, and the credentials in --store.http.config.file", redirected(at, response))
	}
	return decode(body)
}

// unreachable adds advice to the error if the program cannot connect.
func unreachable(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	if of, ok := errors.AsType[*net.OpError](err); ok && of.Op == "dial" {
		return fmt.Errorf("%w: %w", err, ErrUnreachable)
	}
	return err
}

// If the request was redirected to another address, redirected returns the start of the error text.
func redirected(at *url.URL, response *http.Response) string {
	if to := address.Public(response.Request.URL); to != address.Public(at) {
		return "redirected to " + to + ": "
	}
	return ""
}

// advice returns the end of the error text for an HTTP status, or "".
func advice(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ": set the credentials in --store.http.config.file"
	case http.StatusNotFound:
		return ": set --store.url to the part of the address before /api/v1"
	}
	return ""
}

// isPage examines this number of bytes.
const pageStart = 64

// A web page is not a response of a query API.
func isPage(response *http.Response, body *bufio.Reader) bool {
	start, _ := body.Peek(pageStart)
	return strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") && !bytes.HasPrefix(bytes.TrimSpace(start), []byte("{")) ||
		bytes.HasPrefix(bytes.TrimSpace(start), []byte("<"))
}
