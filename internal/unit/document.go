package unit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"github.com/gpuledger/gpuledger/internal/stage"
)

// document reads JSON token by token. Therefore its memory depends only on the longest text in the file, and not on the
// number of elements. A hostile file can have an element in every three bytes. A null is read as an empty value.
type document struct{ decoder *json.Decoder }

func newDocument(r io.Reader) *document {
	decoder := json.NewDecoder(r)
	decoder.UseNumber()
	return &document{decoder}
}

const maxNested = 100

var errDocument = errors.New("invalid JSON or unexpected types")

// readDocument reads a file of at most limit bytes. Its errors contain no part of the file.
func readDocument(path string, limit int64, read func(*document) error) error {
	f, _, err := openTrusted(path, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	d := newDocument(&limited{f, limit})
	if err = read(d); err == nil {
		if _, err = d.decoder.Token(); err == nil {
			err = errDocument // a second value follows
		}
	}
	var failed *fs.PathError
	switch {
	case err == io.EOF: //nolint:errorlint // EOF is expected here, as documented for Token, but unexpected elsewhere
		return nil
	case errors.As(err, &failed):
		return err
	case errors.Is(err, stage.ErrOversized):
		return fmt.Errorf("%s: more than %d bytes: %w", path, limit, err)
	}
	return fmt.Errorf("%s: %w", path, errDocument)
}

type limited struct {
	io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, stage.ErrOversized
	}
	return n, err
}

// begin returns false for a null.
func (d *document) begin(delimiter json.Delim) (bool, error) {
	switch token, err := d.next(); {
	case err != nil:
		return false, err
	case token == nil:
		return false, nil
	case token != delimiter:
		return false, errDocument
	}
	return true, nil
}

func (d *document) next() (json.Token, error) {
	token, err := d.decoder.Token()
	if err == io.EOF {
		err = errDocument
	}
	return token, err
}

// object calls field for each field of an object. field must read the value.
func (d *document) object(field func(name string) error) error {
	if ok, err := d.begin('{'); !ok {
		return err
	}
	for d.decoder.More() {
		name, err := d.next()
		if err != nil {
			return err
		}
		if err := field(name.(string)); err != nil { // the decoder accepts only strings as names
			return err
		}
	}
	_, err := d.next()
	return err
}

// list calls element for each element of a list. element must read the element.
func (d *document) list(element func() error) error {
	if ok, err := d.begin('['); !ok {
		return err
	}
	for d.decoder.More() {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := d.next()
	return err
}

func (d *document) text(into *string) error {
	token, err := d.next()
	s, ok := token.(string)
	if err == nil && token != nil && !ok {
		err = errDocument
	}
	*into = s
	return err
}

func (d *document) number(into *int64) error {
	token, err := d.next()
	if err != nil || token == nil {
		return err
	}
	n, ok := token.(json.Number)
	if !ok {
		return errDocument
	}
	if *into, err = strconv.ParseInt(n.String(), 10, 64); err != nil {
		return errDocument
	}
	return nil
}

func (d *document) skip() error {
	for depth := 0; ; {
		token, err := d.next()
		switch {
		case err != nil:
			return err
		case token == json.Delim('{') || token == json.Delim('['):
			depth++
		case token == json.Delim('}') || token == json.Delim(']'):
			depth--
		}
		switch {
		case depth == 0:
			return nil
		case depth > maxNested:
			return errDocument
		}
	}
}
