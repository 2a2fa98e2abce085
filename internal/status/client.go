package status

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

// maxBytes bounds an answer: far more than the page of a node with a thousand
// containers.
const maxBytes = 16 << 20

// Get asks the exporter at a base URL for its page. The errors say what to do.
func Get(ctx context.Context, client *http.Client, base string) (*Page, error) {
	at, err := url.Parse(base)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, errors.New("want an address of an exporter such as http://127.0.0.1:9840")
	}
	at = at.JoinPath(Path)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, noAnswer(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBytes))
	if err != nil {
		return nil, noAnswer(fmt.Errorf("read %s: %w", at.Redacted(), err))
	}
	if err := refusal(response, string(body)); err != nil {
		return nil, fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	var p Page
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, fmt.Errorf("%s is not the page of an exporter: %w", at.Redacted(), err)
	}
	if p.Version == 0 {
		return nil, fmt.Errorf("%s is not the page of an exporter: it has no version", at.Redacted())
	}
	if p.Version != Version {
		return nil, fmt.Errorf("%s is of version %d, and this program knows version %d: use the program of the exporter's own image", at.Redacted(), p.Version, Version)
	}
	return &p, nil
}

// noAnswer adds to why there is no answer what to do.
func noAnswer(err error) error {
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: no exporter listens there; if it has another --web.listen-address, name it with --url", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: something listens there, or drops what is sent there, and does not answer in time", err)
	case errors.As(err, &certificate):
		return fmt.Errorf("%w: name a file with who vouches for it, as tls_config, by --http.config.file", err)
	}
	return err
}

// refusal says why an answer is no page.
func refusal(response *http.Response, body string) error {
	said, _, _ := strings.Cut(printable(strings.TrimSpace(body)), `\n`)
	if len(said) > 200 {
		said = strings.ToValidUTF8(said[:200], "")
	}
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized:
		return errors.New("it wants a user and a password, or another one: name a file with them, as basic_auth, by --http.config.file")
	case http.StatusNotFound:
		return errors.New("there is no such page: is this an exporter of gpuledger, and not too old?")
	case http.StatusBadRequest:
		if strings.Contains(body, "HTTPS server") {
			return errors.New("it serves HTTPS: use --url=https://…")
		}
	}
	return fmt.Errorf("%s: %s", response.Status, said)
}
