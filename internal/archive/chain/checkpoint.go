package chain

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/address"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Checkpoint is the state of a chain, as it is published.
type Checkpoint struct {
	// Sink is the name of the sink with the chain, as in logs and metrics. It is not signed.
	Sink      string    `json:"sink"`
	Cluster   string    `json:"cluster"`
	Sequence  int64     `json:"sequence"` // of the last entry
	Hash      string    `json:"hash"`     // of the last entry
	Time      time.Time `json:"time"`     // of the last entry
	Key       string    `json:"key_id"`
	Signature string    `json:"signature"`
}

// CheckpointOf returns the checkpoint of the last entry of a chain.
func CheckpointOf(sink string, e table.Entry) Checkpoint {
	return Checkpoint{sink, e.Cluster, e.Sequence, e.Hash, e.At, e.Key, e.Signature}
}

// entry returns the signed part of the last entry.
func (c Checkpoint) entry() table.Entry {
	return table.Entry{Cluster: c.Cluster, Sequence: c.Sequence, Hash: c.Hash, At: c.Time, Key: c.Key, Signature: c.Signature}
}

// timeout is the timeout of a request.
const timeout = 10 * time.Second

// place is a place to which checkpoints are published: the path of a file, or the URL of a server.
type place struct {
	path string
	url  *url.URL
}

// parsePlace parses a URL. Errors do not repeat it.
func parsePlace(text string) (place, error) {
	const must = "must be a URL such as file:///var/lib/checkpoints.jsonl or https://example.com/checkpoints"
	if strings.HasPrefix(text, "file:") {
		at, err := url.Parse(text)
		if err != nil || at.Host != "" || at.Opaque+at.Path == "" {
			return place{}, errors.New(must)
		}
		return place{path: at.Opaque + at.Path}, nil
	}
	at, err := address.Parse(text)
	if err != nil {
		return place{}, fmt.Errorf("%s: %w", must, err)
	}
	if !address.IsHTTP(at) || !address.IsPrivate(at) {
		return place{}, errors.New(must)
	}
	return place{url: at}, nil
}

// Publish appends a checkpoint to a file, or posts it to a server.
func Publish(ctx context.Context, to string, c Checkpoint) error {
	at, err := parsePlace(to)
	if err != nil {
		return err
	}
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if line = append(line, '\n'); at.url == nil {
		return appendLine(at.path, line)
	}
	_, err = at.request(ctx, http.MethodPost, line)
	return err
}

// appendLine appends a durable line to a file.
func appendLine(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// maxCheckpoints is the maximum size of published checkpoints, in bytes: a century of hours.
const maxCheckpoints = 1 << 29

// client refuses a redirection that changes a POST to a GET: the server would not keep the checkpoint.
var client = http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
	if r.Method != via[0].Method || len(via) >= 10 {
		return http.ErrUseLastResponse
	}
	return nil
}}

// request sends a request, and returns the body of the response.
func (p place) request(ctx context.Context, method string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, p.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, address.Hide(p.url, err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, address.Hide(p.url, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s: status %s", address.Public(p.url), response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxCheckpoints))
}

// Published reads the published checkpoints of a sink: JSON objects, one in a line, from a file or by
// a GET request. The name of the sink may be empty if all checkpoints are of the same sink.
func Published(ctx context.Context, from, sink string) (all []Checkpoint, err error) {
	at, err := parsePlace(from)
	if err != nil {
		return nil, err
	}
	var text []byte
	if at.url == nil {
		text, err = os.ReadFile(at.path)
	} else {
		text, err = at.request(ctx, http.MethodGet, nil)
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var c Checkpoint
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if sink != "" && c.Sink != sink {
			continue
		}
		if len(all) > 0 && all[0].Sink != c.Sink {
			return nil, fmt.Errorf("it has checkpoints of the sinks %s and %s: select one with --chain.sink", all[0].Sink, c.Sink)
		}
		all = append(all, c)
	}
	if len(all) == 0 && lines.Err() == nil {
		return nil, errors.New("it has no checkpoints")
	}
	return all, lines.Err()
}
