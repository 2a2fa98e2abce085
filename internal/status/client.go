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

// maxBytes is the maximum size of a response in bytes. The page of a node with a thousand containers is much smaller.
const maxBytes = 16 << 20

// Get requests the page from the exporter at a base URL. The returned errors contain advice.
func Get(ctx context.Context, client *http.Client, base string) (*Page, error) {
	var p Page
	if err := get(ctx, client, base, &url.URL{Path: Path}, &p, &p.Version); err != nil {
		return nil, err
	}
	return &p, nil
}

// GetExplanation requests an explanation from the exporter at a base URL. The returned errors
// contain advice.
func GetExplanation(ctx context.Context, client *http.Client, base string, q Query) (*Explanation, error) {
	var e Explanation
	if err := get(ctx, client, base, &url.URL{Path: ExplainPath, RawQuery: q.Values().Encode()}, &e, &e.Version); err != nil {
		return nil, err
	}
	return &e, nil
}

func get(ctx context.Context, client *http.Client, base string, page *url.URL, value any, version *int) error {
	at, err := url.Parse(base)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return errors.New("must be the address of an exporter, such as http://127.0.0.1:9840")
	}
	at = at.JoinPath(page.Path)
	name := at.Redacted()
	at.RawQuery = page.RawQuery
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return noAnswer(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBytes))
	if err != nil {
		return noAnswer(fmt.Errorf("read %s: %w", name, err))
	}
	if err := refusal(response, string(body)); err != nil {
		if errors.As(err, new(QueryError)) {
			return err
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := json.Unmarshal(body, value); err != nil {
		return fmt.Errorf("%s is not the page of an exporter: %w", name, err)
	}
	if *version == 0 {
		return fmt.Errorf("%s is not the page of an exporter: the response has no version", name)
	}
	if *version != Version {
		return fmt.Errorf("%s has version %d, and this program supports version %d: use the program from the exporter's image", name, *version, Version)
	}
	return nil
}

// QueryError describes an invalid query. The error names the invalid parameter of the request. The command has a flag
// with the same name.
type QueryError string

// Error implements error.
func (e QueryError) Error() string { return string(e) }

// Respond sends the error to a client as readable text, because a person may have made the request.
func (e QueryError) Respond(w http.ResponseWriter) {
	w.Header().Set(queryErrorHeader, "true")
	http.Error(w, labelvalue.Printable(string(e)), http.StatusBadRequest)
}

const queryErrorHeader = "X-Gpuledger-Query-Error"

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

func refusal(response *http.Response, body string) error {
	text, _, _ := strings.Cut(labelvalue.Printable(strings.TrimSpace(body)), `\n`)
	limit := 200
	if response.Header.Get(queryErrorHeader) != "" {
		limit = 4096
	}
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized:
		return errors.New("authentication failed: set --http.config.file to a file with the user and password in basic_auth")
	case http.StatusNotFound:
		return errors.New("no such page: --url must be the address of a gpuledger exporter that is recent enough")
	case http.StatusBadRequest:
		if strings.Contains(body, "HTTPS server") {
			return errors.New("the exporter serves HTTPS: use --url=https://…")
		}
		if response.Header.Get(queryErrorHeader) != "" {
			return QueryError(text)
		}
	}
	return fmt.Errorf("%s: %s", response.Status, text)
}
