package event

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
)

// ErrInvalid is wrapped in the error if a line is not a valid event.
var ErrInvalid = errors.New("invalid event")

// The logger adds these fields to a line. Decode ignores them, so that log lines can also be sent as events.
var logFields = []string{"time", "level", "msg"}

// Decode returns the events in a text with one event per line. It stops at the first error. It ignores empty lines,
// rounds times down to milliseconds, and replaces invalid characters.
func Decode(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		in := &source{Reader: r}
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, MaxLine)
		n := 0
		for lines.Scan() {
			n++
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			e, err := decode(lines.Bytes())
			if in.err != nil {
				break // the line may be incomplete
			}
			if err != nil {
				yield(Event{}, fmt.Errorf("line %d: %w: %w", n, ErrInvalid, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield(Event{}, fmt.Errorf("line %d: %w: more than %d bytes", n+1, ErrInvalid, MaxLine))
		case err != nil:
			yield(Event{}, fmt.Errorf("after line %d: %w", n, err))
		}
	}
}

// source records the error of a reader. A scanner first returns the last, incomplete line, and only then the error.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(b []byte) (n int, err error) {
	n, err = s.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// decode replaces characters that archive sinks cannot store.
func decode(line []byte) (e Event, err error) {
	in := json.NewDecoder(bytes.NewReader(line))
	in.UseNumber() // keeps the exact text of numbers
	var all map[string]any
	if err := in.Decode(&all); err != nil {
		return e, err
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return e, errors.New("more than one value in the line")
	}
	cleaned, err := clean(all, 0)
	if err != nil {
		return e, err
	}
	all = cleaned.(map[string]any)
	for name, text := range e.fields() {
		if *text, err = take(all, name); err != nil {
			return e, err
		}
	}
	at, err := take(all, "at")
	if err != nil {
		return e, err
	}
	if e.At, err = time.Parse(time.RFC3339, at); err != nil {
		return e, fmt.Errorf("at: %w", err)
	}
	e.At = e.At.UTC().Truncate(time.Millisecond)
	if year := e.At.Year(); year < 1 || year > 9999 {
		return e, fmt.Errorf("at: year %d", year)
	}
	if object := all["object"]; object != nil {
		if e.Object, err = encode(object); err != nil {
			return e, err
		}
	}
	delete(all, "object")
	for _, name := range logFields {
		delete(all, name)
	}
	if len(all) > 0 {
		if e.Details, err = encode(all); err != nil {
			return e, err
		}
	}
	return e, e.check()
}

// take removes a text field from the fields of a line, and returns its value. A missing field is empty.
func take(from map[string]any, name string) (string, error) {
	value := from[name]
	delete(from, name)
	if value == nil {
		return "", nil
	}
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("%s is not a string", name)
	}
	return text, nil
}

// clean replaces zero bytes in strings, because databases reject them. It returns an error if a number is out of range
// or too long, or if values are nested deeper than maxDepth. The decoder has already replaced invalid UTF-8.
func clean(value any, depth int) (_ any, err error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d levels of nested objects", maxDepth)
	}
	switch v := value.(type) {
	case string:
		return withoutZeros(v), nil
	case json.Number:
		if _, err := v.Float64(); err != nil || len(v) > maxNumber {
			return nil, fmt.Errorf("number %.50q is out of range", string(v))
		}
	case []any:
		for i := range v {
			if v[i], err = clean(v[i], depth+1); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		cleaned := make(map[string]any, len(v))
		for name, value := range v {
			if cleaned[withoutZeros(name)], err = clean(value, depth+1); err != nil {
				return nil, err
			}
		}
		return cleaned, nil
	}
	return value, nil
}

func withoutZeros(text string) string { return strings.ReplaceAll(text, "\x00", "\ufffd") }

// Unlike [json.Marshal], encode does not escape HTML characters.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	if err := out.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}
