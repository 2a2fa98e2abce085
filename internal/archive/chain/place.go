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

// place is a file, a ConfigMap or a server to which checkpoints are published.
type place interface {
	publish(ctx context.Context, c Checkpoint) error
	published(ctx context.Context) ([]Checkpoint, error)
}

// httpConfig is a file with settings for an HTTP client, or empty. Errors do not contain the URL.
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

// Publish publishes a checkpoint: in a file, in a ConfigMap or on a server. httpConfig is a file with settings for an
// HTTP client, or empty.
func Publish(ctx context.Context, to, httpConfig string, c Checkpoint) error {
	at, err := parsePlace(to, httpConfig)
	if err != nil {
		return err
	}
	return at.publish(ctx, c)
}

// Published reads the published checkpoints of a sink from a file, a ConfigMap or a server. They are JSON objects, one
// per line. If all checkpoints are from the same sink, the argument sink may be empty.
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

type file string

// publish flushes the file to disk. A crash or a full disk may have cut the last line. publish then first ends this
// line.
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

// isCut reports whether the last line of the file is incomplete. If the archive may not read the file, it returns
// false.
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
