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

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// maxBytes limits a response. It is far larger than the page of a node with a thousand
// containers.
const maxBytes = 16 << 20

// Get requests the page from an exporter at a base URL. Its errors include advice.
func Get(ctx context.Context, client *http.Client, base string) (*Page, error) {
	at, err := url.Parse(base)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, errors.New("must be the address of an exporter, such as http://127.0.0.1:9840")
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
		return nil, fmt.Errorf("%s has version %d, and this program supports version %d: use the program from the exporter's image", at.Redacted(), p.Version, Version)
	}
	return &p, nil
}

// noAnswer adds advice to a connection error.
func noAnswer(err error) error {
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: no exporter listens on this address; set --url to the exporter's --web.listen-address", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: the server or a firewall does not respond in time", err)
	case errors.As(err, &certificate):
		return fmt.Errorf("%w: set --http.config.file to a file with the CA certificate in tls_config", err)
	}
	return err
}

// refusal explains a response that is not a page.
func refusal(response *http.Response, body string) error {
	text, _, _ := strings.Cut(labelvalue.Printable(strings.TrimSpace(body)), `\n`)
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "")
	}
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized:
		return errors.New("authentication failed: set --http.config.file to a file with the user and password in basic_auth")
	case http.StatusNotFound:
		return errors.New("no such page: is this a gpuledger exporter, and recent enough?")
	case http.StatusBadRequest:
		if strings.Contains(body, "HTTPS server") {
			return errors.New("the exporter serves HTTPS: use --url=https://…")
		}
	}
	return fmt.Errorf("%s: %s", response.Status, text)
}
