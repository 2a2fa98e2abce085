package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// scanner reads JSON from a stream. The slices from its methods are valid until the next call. It accepts every valid
// JSON text, and some invalid texts.
type scanner struct {
	in  io.Reader
	buf []byte // bytes that were read; the bytes before at are consumed
	at  int
}

func (s *scanner) reset(in io.Reader) {
	if s.buf == nil {
		s.buf = make([]byte, 0, 64<<10)
	}
	s.in, s.buf, s.at = in, s.buf[:0], 0
}

// maxText is the maximum size of a string, a sample or a skipped value, in bytes.
const maxText = 1 << 20

// fill reads more bytes. It moves the bytes from the index "from" on to the start of the buffer, and drops the bytes
// before. It returns an error at the end of the stream.
func (s *scanner) fill(from int) error {
	n := copy(s.buf, s.buf[from:])
	s.buf, s.at = s.buf[:n], s.at-from
	if n >= maxText {
		return fmt.Errorf("%w: a text has more than %d KiB", ErrTooLarge, maxText>>10)
	}
	if n == cap(s.buf) {
		s.buf = append(make([]byte, 0, 2*n), s.buf...)
	}
	for {
		read, err := s.in.Read(s.buf[n:cap(s.buf)])
		s.buf = s.buf[:n+read]
		switch {
		case read > 0:
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
}

// peek returns the next byte that is not white space, but does not consume it.
func (s *scanner) peek() (byte, error) {
	for {
		for ; s.at < len(s.buf); s.at++ {
			if c := s.buf[s.at]; c > ' ' {
				return c, nil
			}
		}
		if err := s.fill(s.at); err != nil {
			return 0, err
		}
	}
}

func (s *scanner) expect(want byte) error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	if c != want {
		return fmt.Errorf("invalid character %q in place of %q: %w", c, want, errFormat)
	}
	s.at++
	return nil
}

// field must consume the value.
func (s *scanner) object(field func(name []byte) error) error {
	return s.list('{', '}', func() error {
		name, err := s.str()
		if err != nil {
			return err
		}
		if s.at == len(s.buf) || s.buf[s.at] != ':' {
			name = bytes.Clone(name) // reading the colon may overwrite the buffer
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		return field(name)
	})
}

// element must consume the value.
func (s *scanner) array(element func() error) error { return s.list('[', ']', element) }

func (s *scanner) list(begin, end byte, element func() error) error {
	if err := s.expect(begin); err != nil {
		return err
	}
	for first := true; ; first = false {
		c, err := s.peek()
		switch {
		case err != nil:
			return err
		case c == end:
			s.at++
			return nil
		case !first:
			if err := s.expect(','); err != nil {
				return err
			}
		}
		if err := element(); err != nil {
			return err
		}
	}
}

func (s *scanner) str() ([]byte, error) {
	quoted, err := s.quoted()
	if err != nil || bytes.IndexByte(quoted, '\\') < 0 {
		return quoted, err
	}
	var text string
	err = json.Unmarshal(append(append([]byte{'"'}, quoted...), '"'), &text)
	return []byte(text), err
}

// quoted does not decode escapes.
func (s *scanner) quoted() ([]byte, error) {
	if err := s.expect('"'); err != nil {
		return nil, err
	}
	from := s.at
	for {
		for ; s.at < len(s.buf); s.at++ {
			switch s.buf[s.at] {
			case '"':
				s.at++
				return s.buf[from : s.at-1], nil
			case '\\':
				s.at++
			}
		}
		if err := s.fill(from); err != nil {
			return nil, err
		}
		from = 0
	}
}

// pair returns the text between the brackets of an array of numbers and strings.
func (s *scanner) pair() ([]byte, error) {
	if err := s.expect('['); err != nil {
		return nil, err
	}
	from := s.at
	for {
		if i := bytes.IndexByte(s.buf[s.at:], ']'); i >= 0 {
			s.at += i + 1
			return s.buf[from : s.at-1], nil
		}
		s.at = len(s.buf)
		if err := s.fill(from); err != nil {
			return nil, err
		}
		from = 0
	}
}

func (s *scanner) value() ([]byte, error) {
	if _, err := s.peek(); err != nil {
		return nil, err
	}
	from, depth, inString := s.at, 0, false
	for {
		for ; s.at < len(s.buf); s.at++ {
			c := s.buf[s.at]
			switch {
			case inString && c == '\\':
				s.at++
			case c == '"':
				inString = !inString
			case inString:
			case c == '{' || c == '[':
				depth++
			case (c == '}' || c == ']' || c == ',') && depth == 0:
				return s.buf[from:s.at], nil
			case c == '}' || c == ']':
				depth--
			}
		}
		if err := s.fill(from); err != nil {
			return nil, err
		}
		from = 0
	}
}
