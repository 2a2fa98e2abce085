package chain

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/address"
)

// place is a place to which checkpoints are published.
type place interface {
	publish(ctx context.Context, c Checkpoint) error
	published(ctx context.Context) ([]Checkpoint, error)
}

// parsePlace parses a URL. httpConfig is a file with the settings of HTTP clients, and may be empty. Errors do not
// repeat the URL.
func parsePlace(text, httpConfig string) (place, error) {
	const must = "must be a URL such as file:///var/lib/checkpoints.jsonl, https://example.com/checkpoints or configmap:gpuledger/gpuledger-checkpoints"
	scheme, _, _ := strings.Cut(text, ":")
	if scheme == "file" || scheme == "configmap" {
		at, err := url.Parse(text)
		switch {
		case err != nil || at.Host != "" || at.Opaque+at.Path == "":
			return nil, errors.New(must)
		case scheme == "file":
			return file(at.Opaque + at.Path), nil
		}
		return parseConfigMap(at)
	}
	at, err := address.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", must, err)
	}
	if !address.IsHTTP(at) || !address.IsPrivate(at) {
		return nil, errors.New(must)
	}
	return &server{url: at, httpConfig: httpConfig}, nil
}

// Publish appends a checkpoint to a file or a ConfigMap, or posts it to a server with the settings in the file
// httpConfig, which may be empty.
func Publish(ctx context.Context, to, httpConfig string, c Checkpoint) error {
	at, err := parsePlace(to, httpConfig)
	if err != nil {
		return err
	}
	return at.publish(ctx, c)
}

// Published reads the published checkpoints of a sink. They are JSON objects, one on each line, from a file, from a
// ConfigMap or from a GET request. The name of the sink may be empty if all checkpoints belong to the same sink.
func Published(ctx context.Context, from, httpConfig, sink string) ([]Checkpoint, error) {
	at, err := parsePlace(from, httpConfig)
	if err != nil {
		return nil, err
	}
	all, err := at.published(ctx)
	if err != nil {
		return nil, err
	}
	return ofSink(all, sink)
}

// file is the path of a file with checkpoints.
type file string

// publish appends a durable line. It ends a line that a crash or a full disk cut.
func (path file) publish(_ context.Context, c Checkpoint) error {
	line, err := c.line()
	if err != nil {
		return err
	}
	if path.isCut() {
		line = append([]byte{'\n'}, line...)
	}
	f, err := os.OpenFile(string(path), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// isCut reports whether the file is known to end within a line. The archive may not have the right to
// read the file.
func (path file) isCut() bool {
	info, err := os.Stat(string(path))
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	f, err := os.Open(string(path))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}

func (path file) published(context.Context) ([]Checkpoint, error) {
	text, err := os.ReadFile(string(path))
	if err != nil {
		return nil, err
	}
	return parseCheckpoints(text)
}
