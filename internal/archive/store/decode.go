package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// point is [seconds, "value"], as in the responses of the query API.
type point fold.Sample

func (p *point) UnmarshalJSON(text []byte) error {
	at, value, found := strings.Cut(strings.Trim(string(text), "[] "), ",")
	if !found {
		return fmt.Errorf("%.40q is no sample", text)
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(at), 64)
	if err != nil {
		return fmt.Errorf("time of a sample: %w", err)
	}
	p.Time = int64(math.Round(seconds * 1000))
	p.Value, err = strconv.ParseFloat(strings.Trim(value, `" `), 64)
	if err != nil {
		return fmt.Errorf("value of a sample: %w", err)
	}
	return nil
}

// series is an element of a matrix, with values, or of a vector, with one value.
type series struct {
	Metric map[string]string `json:"metric"`
	Value  *point            `json:"value"`
	Values []point           `json:"values"`
}

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
				return fmt.Errorf("the store warns: %s", strings.Join(warnings, "; "))
			}
			return nil
		case "isPartial":
			var partial bool
			if err := d.Decode(&partial); err != nil || !partial {
				return err
			}
			return errors.New("the store returned partial data")
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
		if s.Value != nil {
			s.Values = append(s.Values, *s.Value)
		}
		samples := make([]fold.Sample, 0, len(s.Values))
		for _, p := range s.Values {
			if !math.IsNaN(p.Value) { // VictoriaMetrics returns stale markers as NaN
				samples = append(samples, fold.Sample(p))
			}
		}
		add(fold.Series{Labels: s.Metric, Samples: samples})
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
