package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// series is an element of a matrix, with values, or of a vector, with one value.
type series struct {
	Metric map[string]string `json:"metric"`
	Value  json.RawMessage   `json:"value"`
	Values json.RawMessage   `json:"values"`
}

// samples parses [[seconds, "value"], …], which is valid JSON, several times faster than
// encoding/json. NaN is left out: VictoriaMetrics returns it for stale markers.
func samples(text []byte) ([]fold.Sample, error) {
	found := make([]fold.Sample, 0, bytes.Count(text, []byte{']'}))
	for pair := range bytes.SplitSeq(text, []byte{']'}) {
		pair = bytes.TrimLeft(pair, "[, \t\r\n")
		if len(pair) == 0 {
			continue
		}
		at, value, _ := strings.Cut(string(pair), ",")
		seconds, err := strconv.ParseFloat(strings.TrimSpace(at), 64)
		if err != nil {
			return nil, fmt.Errorf("time of a sample: %w", err)
		}
		v, err := strconv.ParseFloat(strings.Trim(value, "\" \t\r\n"), 64)
		if err != nil {
			return nil, fmt.Errorf("value of a sample: %w", err)
		}
		if !math.IsNaN(v) {
			found = append(found, fold.Sample{Time: int64(math.Round(seconds * 1000)), Value: v})
		}
	}
	return found, nil
}

// ErrIncomplete means that the store returned incomplete data.
var ErrIncomplete = errors.New("the data are incomplete")

// decode calls add for each series of a response, without holding all of them. Responses with
// warnings or marked as partial are errors: the data may be incomplete.
func decode(body io.Reader, add func(fold.Series)) error {
	d := json.NewDecoder(body)
	status, failure := "", ""
	err := object(d, func(name string) error {
		switch name {
		case "status":
			return d.Decode(&status)
		case "error":
			return d.Decode(&failure)
		case "warnings":
			var warnings []string
			if err := d.Decode(&warnings); err != nil {
				return err
			}
			if len(warnings) > 0 {
				return fmt.Errorf("%w: the store warns: %s", ErrIncomplete, strings.Join(warnings, "; "))
			}
			return nil
		case "isPartial":
			var partial bool
			if err := d.Decode(&partial); err != nil || !partial {
				return err
			}
			return fmt.Errorf("%w: the store returned partial data", ErrIncomplete)
		case "data":
			return object(d, func(name string) error {
				if name != "result" {
					return skip(d)
				}
				return results(d, add)
			})
		}
		return skip(d)
	})
	switch {
	case err != nil:
		return err
	case status != "success":
		return fmt.Errorf("the store returned status %q: %s", status, failure)
	}
	return nil
}

func results(d *json.Decoder, add func(fold.Series)) error {
	if err := expect(d, '['); err != nil {
		return err
	}
	for d.More() {
		var s series
		if err := d.Decode(&s); err != nil {
			return err
		}
		found, err := samples(append(s.Values, s.Value...))
		if err != nil {
			return err
		}
		add(fold.Series{Labels: s.Metric, Samples: found})
	}
	return expect(d, ']')
}

// object calls field for each field of the next value, which must be an object.
func object(d *json.Decoder, field func(name string) error) error {
	if err := expect(d, '{'); err != nil {
		return err
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if err := field(name); err != nil {
			return err
		}
	}
	return expect(d, '}')
}

func expect(d *json.Decoder, want json.Delim) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("%v in place of %v: this is no response of the query API", token, want)
	}
	return nil
}

func skip(d *json.Decoder) error {
	var ignored json.RawMessage
	return d.Decode(&ignored)
}
