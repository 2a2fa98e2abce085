package events

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gpuledger/gpuledger/internal/event"
)

const (
	// maxBody limits the body of a request. maxText limits the uncompressed text. Both are in bytes. maxEvents limits
	// the number of lines. A request from the reconciler contains at most one megabyte or one longer line.
	maxBody   = 8 << 20
	maxText   = 16 << 20
	maxEvents = 20_000
	// A sender reads the response only after it has sent the body. Therefore up to maxRest further bytes of the body
	// are read before the response. If even more bytes follow, the connection is closed.
	maxRest = 64 << 20
)

// body records the error at the end of a request's body.
type body struct {
	io.Reader
	read int64
	err  error
}

func (b *body) Read(p []byte) (n int, err error) {
	if b.read > maxBody {
		return 0, errLargeBody
	}
	n, err = b.Reader.Read(p)
	b.read += int64(n)
	if err != nil {
		b.err = err
	}
	return n, err
}

var (
	errLargeBody  = fmt.Errorf("the body has more than %d bytes", maxBody)
	errLargeText  = fmt.Errorf("the text has more than %d bytes", maxText)
	errManyEvents = fmt.Errorf("the request has more than %d events", maxEvents)
)

// size is the size of the uncompressed text in bytes.
func read(req *http.Request) (size int, events []event.Event, err error) {
	in := &body{Reader: req.Body}
	size, events, err = decode(in, req.Header.Get("Content-Encoding"))
	switch {
	case errors.Is(err, errLargeBody), errors.Is(err, errLargeText), errors.Is(err, errManyEvents):
		_, _ = io.CopyN(io.Discard, req.Body, maxRest)
		return 0, nil, &refusal{err, http.StatusRequestEntityTooLarge}
	case errors.As(err, new(*refusal)) || err == nil:
		return size, events, err
	case in.err != nil && !errors.Is(in.err, io.EOF): // the connection failed
		return 0, nil, err
	}
	return 0, nil, &refusal{err, http.StatusBadRequest}
}

// The error of decode is about the content, or it is the error of the reader.
func decode(in io.Reader, encoding string) (size int, events []event.Event, err error) {
	switch encoding {
	case "", "identity":
	case "gzip":
		if in, err = gzip.NewReader(in); err != nil {
			return 0, nil, fmt.Errorf("gzip: %w", err)
		}
	default:
		return 0, nil, refuse(http.StatusUnsupportedMediaType, "content encoding %q: must be gzip or none", encoding)
	}
	text := &io.LimitedReader{R: in, N: maxText + 1}
	for e, err := range event.Decode(text) {
		switch {
		case text.N <= 0:
			return 0, nil, errLargeText
		case err != nil:
			return 0, nil, err
		case len(events) == maxEvents:
			return 0, nil, errManyEvents
		}
		events = append(events, e)
	}
	if text.N <= 0 {
		return 0, nil, errLargeText
	}
	return int(maxText + 1 - text.N), events, nil
}
