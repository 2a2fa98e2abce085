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

// ErrIncomplete means that the store returned incomplete data.
var ErrIncomplete = errors.New("the data are incomplete")

// errFormat means that a response is no response of the query API.
var errFormat = errors.New("this is no response of the query API")

// decoder reads the series of responses. It is several times faster than encoding/json, which would
// take more processor time than all other steps of an hour.
type decoder struct {
	*scanner
	// texts has each label name and value once.
	texts map[string]string
	// room is the place for the next samples. Series share large slices of samples.
	room []fold.Sample
	last value
}

// roomSize is the number of samples of which memory is allocated at once.
const roomSize = 16 << 10

func newDecoder() *decoder { return &decoder{scanner: &scanner{}, texts: make(map[string]string)} }

// decode calls add for each series of a response, without holding all of them. Responses with
// warnings or marked as partial are errors: the data may be incomplete.
func (d *decoder) decode(body io.Reader, add func(fold.Series)) error {
	d.reset(body)
	var status, failure string
	var warnings []string
	var partial bool
	fields := map[string]any{"status": &status, "error": &failure, "warnings": &warnings, "isPartial": &partial}
	err := d.object(func(name []byte) error {
		if string(name) == "data" {
			return d.data(add)
		}
		into, ok := fields[string(name)]
		text, err := d.value()
		if err != nil || !ok {
			return err
		}
		return json.Unmarshal(text, into)
	})
	switch {
	case err != nil:
		return err
	case len(warnings) > 0:
		return fmt.Errorf("%w: the store warns: %s", ErrIncomplete, strings.Join(warnings, "; "))
	case partial:
		return fmt.Errorf("%w: the store returned partial data", ErrIncomplete)
	case status != "success":
		return fmt.Errorf("the store returned status %q: %s", status, failure)
	}
	return nil
}

func (d *decoder) data(add func(fold.Series)) error {
	return d.object(func(name []byte) error {
		if string(name) != "result" {
			_, err := d.value()
			return err
		}
		return d.array(func() error {
			s, err := d.series()
			if err == nil {
				add(s)
			}
			return err
		})
	})
}

// series reads an element of a matrix, with values, or of a vector, with one value.
func (d *decoder) series() (s fold.Series, err error) {
	if cap(d.room)-len(d.room) < 100 {
		d.room = make([]fold.Sample, 0, roomSize)
	}
	begin := len(d.room)
	err = d.object(func(name []byte) (err error) {
		switch string(name) {
		case "metric":
			s.Labels, err = d.labels()
		case "value":
			err = d.sample()
		case "values":
			err = d.array(d.sample)
		default:
			_, err = d.value()
		}
		return err
	})
	s.Samples = d.room[begin:len(d.room):len(d.room)]
	return s, err
}

func (d *decoder) labels() (labels fold.Labels, err error) {
	labels = make(fold.Labels, 0, 12)
	err = d.object(func(name []byte) error {
		l := fold.Label{Name: d.text(name)}
		value, err := d.str()
		l.Value = d.text(value)
		labels = append(labels, l)
		return err
	})
	return labels, err
}

// text returns a text that all labels share.
func (d *decoder) text(b []byte) string {
	if text, ok := d.texts[string(b)]; ok {
		return text
	}
	text := string(b)
	d.texts[text] = text
	return text
}

// sample reads [seconds, "value"]. NaN is left out: VictoriaMetrics returns it for stale markers.
func (d *decoder) sample() error {
	pair, err := d.pair()
	if err != nil {
		return err
	}
	i := bytes.IndexByte(pair, ',')
	text := bytes.TrimSpace(pair[i+1:])
	if i < 0 || len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return fmt.Errorf("sample %.50q: %w", pair, errFormat)
	}
	at, err := milliseconds(pair[:i])
	if err != nil {
		return fmt.Errorf("time of a sample: %w", err)
	}
	v, err := d.last.parse(text[1 : len(text)-1])
	if err != nil {
		return fmt.Errorf("value of a sample: %w", err)
	}
	if !math.IsNaN(v) {
		d.room = append(d.room, fold.Sample{Time: at, Value: v})
	}
	return nil
}

// milliseconds parses a time in seconds.
func milliseconds(text []byte) (int64, error) {
	whole, fraction, unit := int64(0), int64(0), int64(0)
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9' && unit == 0 && whole < 1e12:
			whole = 10*whole + int64(c-'0')
		case c >= '0' && c <= '9' && unit > 1:
			unit /= 10
			fraction += unit * int64(c-'0')
		case c == '.' && unit == 0:
			unit = 1000
		default:
			seconds, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
			return int64(math.Round(seconds * 1000)), err
		}
	}
	return 1000*whole + fraction, nil
}

// value is the last parsed value. Most counters keep their value.
type value struct {
	text   []byte
	parsed float64
}

func (v *value) parse(text []byte) (_ float64, err error) {
	if bytes.Equal(v.text, text) && len(text) > 0 {
		return v.parsed, nil
	}
	if v.parsed, err = decimal(text); err == nil {
		v.text = append(v.text[:0], text...)
	}
	return v.parsed, err
}

// powers are the powers of ten that a float64 has exactly.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// decimal parses a number as [strconv.ParseFloat] does. A decimal with at most 15 digits is the
// quotient of two numbers that a float64 has exactly, so the division rounds correctly.
func decimal(text []byte) (float64, error) {
	digits, fraction, point := int64(0), 0, false
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9':
			digits = 10*digits + int64(c-'0')
			if point {
				fraction++
			}
		case c == '.' && !point:
			point = true
		default:
			return strconv.ParseFloat(string(text), 64)
		}
	}
	if n := len(text); n < 2 || n > 15 || point && (fraction == 0 || fraction == n-1) {
		return strconv.ParseFloat(string(text), 64)
	}
	return float64(digits) / powers[fraction], nil
}
