package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// ErrIncomplete means that the store returned incomplete data.
var ErrIncomplete = errors.New("the data are incomplete")

// ErrTooLarge means that the data from the store do not fit in the memory of the program.
var ErrTooLarge = errors.New("the data are too large")

// errFormat means that a response is not from a query API.
var errFormat = errors.New("this is not a response of the query API")

// decoder reads series from responses. It is several times faster than encoding/json, which would be the slowest part
// of the work for an hour.
type decoder struct {
	*scanner
	budget *budget
	// texts contains each name and value of a label once, so that series share these strings.
	texts map[string]string
	// room is the memory for samples of this series and later series. The samples of this series start at index begin.
	room  []fold.Sample
	begin int
	last  value
}

const (
	// roomSize is the maximum number of samples for which memory is allocated at once.
	roomSize  = 16 << 10
	maxLabels = 512
	// maxQuoted is the maximum length of a quotation from a response in an error, in bytes.
	maxQuoted = 500
)

func newDecoder(b *budget) *decoder {
	return &decoder{scanner: &scanner{}, budget: b, texts: make(map[string]string)}
}

// decode calls the function add for each series, so that the series are not all in memory. If the response contains
// warnings or is marked as partial, data may be missing, and decode returns an error.
func (d *decoder) decode(body io.Reader, add func(fold.Series)) error {
	return d.response(body, func() error { return d.data(add) })
}

func (d *decoder) decodeLabels(body io.Reader, add func(fold.Labels)) error {
	return d.response(body, func() error {
		return d.array(func() error {
			labels, err := d.labels()
			if err == nil {
				err = d.budget.spend(seriesCost)
			}
			if err == nil {
				add(labels)
			}
			return err
		})
	})
}

// The function data reads the value of the field "data".
func (d *decoder) response(body io.Reader, data func() error) error {
	d.reset(body)
	var status, failure string
	var warnings []string
	var partial bool
	fields := map[string]any{"data": nil, "status": &status, "error": &failure, "warnings": &warnings, "isPartial": &partial}
	seen := make(map[string]bool)
	err := d.object(func(name []byte) error {
		into, known := fields[string(name)]
		if known {
			if seen[string(name)] {
				return twice(name)
			}
			seen[string(name)] = true
		}
		if string(name) == "data" {
			return data()
		}
		text, err := d.value()
		if err != nil || !known {
			return err
		}
		return json.Unmarshal(text, into)
	})
	switch {
	case err != nil:
		return err
	case len(warnings) > 0:
		return fmt.Errorf("%w: the store warns: %.*q", ErrIncomplete, maxQuoted, strings.Join(warnings, "; "))
	case partial:
		return fmt.Errorf("%w: the store returned partial data", ErrIncomplete)
	case status != "success":
		return fmt.Errorf("the store returned status %.20q: %.*q", status, maxQuoted, failure)
	}
	return nil
}

func twice(name []byte) error { return fmt.Errorf("the field %.50q occurs twice: %w", name, errFormat) }

func (d *decoder) data(add func(fold.Series)) error {
	known := false
	return d.object(func(name []byte) error {
		if string(name) != "result" {
			_, err := d.value()
			return err
		}
		if known {
			return twice(name)
		}
		known = true
		return d.array(func() error {
			s, err := d.series()
			if err == nil {
				add(s)
			}
			return err
		})
	})
}

// series reads an element of a matrix or a vector. An element of a vector has only one value.
func (d *decoder) series() (s fold.Series, err error) {
	if err := d.budget.spend(seriesCost); err != nil {
		return s, err
	}
	if cap(d.room)-len(d.room) < 100 {
		if err := d.grow(min(max(2*cap(d.room), 512), roomSize)); err != nil {
			return s, err
		}
	}
	d.begin = len(d.room)
	sampled := false
	err = d.object(func(name []byte) (err error) {
		switch string(name) {
		case "metric":
			if s.Labels != nil {
				return twice(name)
			}
			s.Labels, err = d.labels()
		case "value", "values":
			if sampled {
				return twice(name)
			}
			sampled = true
			if string(name) == "value" {
				return d.sample()
			}
			err = d.array(d.sample)
		default:
			_, err = d.value()
		}
		return err
	})
	s.Samples = d.room[d.begin:len(d.room):len(d.room)]
	return s, err
}

// grow moves the samples of the current series to new memory.
func (d *decoder) grow(samples int) error {
	if err := d.budget.spend(samples * sampleCost); err != nil {
		return err
	}
	d.room = append(make([]fold.Sample, 0, samples), d.room[d.begin:]...)
	d.begin = 0
	return nil
}

func (d *decoder) labels() (labels fold.Labels, err error) {
	labels = make(fold.Labels, 0, 12)
	err = d.object(func(name []byte) error {
		l := fold.Label{}
		if l.Name, err = d.text(name); err != nil {
			return err
		}
		if slices.ContainsFunc(labels, func(known fold.Label) bool { return known.Name == l.Name }) {
			return twice(name)
		}
		if len(labels) == maxLabels {
			return fmt.Errorf("%w: a series has more than %d labels", ErrTooLarge, maxLabels)
		}
		value, err := d.str()
		if err != nil {
			return err
		}
		l.Value, err = d.text(value)
		labels = append(labels, l)
		return err
	})
	if err == nil {
		err = d.budget.spend(cap(labels) * labelCost)
	}
	return labels, err
}

func (d *decoder) text(b []byte) (string, error) {
	if text, ok := d.texts[string(b)]; ok {
		return text, nil
	}
	if err := d.budget.spend(textCost + len(b)); err != nil {
		return "", err
	}
	text := string(b)
	d.texts[text] = text
	return text, nil
}

// sample reads [seconds, "value"]. It omits NaN, which VictoriaMetrics returns for stale markers. It keeps infinite
// values, because [fold.Fold] drops scrapes with infinite values.
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
	if math.IsNaN(v) {
		return nil
	}
	n := len(d.room)
	if n > d.begin && at < d.room[n-1].Time {
		return fmt.Errorf("the samples of a series are not sorted by time: %w", errFormat)
	}
	if n == cap(d.room) {
		if err := d.grow(min(max(2*cap(d.room), 512), max(roomSize, 2*(n-d.begin)))); err != nil {
			return err
		}
	}
	d.room = append(d.room, fold.Sample{Time: at, Value: v})
	return nil
}
