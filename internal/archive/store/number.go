package store

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// maxTime is the end of the year 9999, in seconds since the epoch.
const maxTime = 253_402_300_800

func milliseconds(text []byte) (int64, error) {
	whole, fraction, unit := int64(0), int64(0), int64(0)
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9' && unit == 0 && whole < maxTime:
			whole = 10*whole + int64(c-'0')
		case c >= '0' && c <= '9' && unit > 1:
			unit /= 10
			fraction += unit * int64(c-'0')
		case c == '.' && unit == 0:
			unit = 1000
		default:
			return parsedTime(text)
		}
	}
	if whole >= maxTime || len(text) == 0 {
		return parsedTime(text)
	}
	return 1000*whole + fraction, nil
}

// parsedTime parses times in uncommon formats, such as 1.7e9.
func parsedTime(text []byte) (int64, error) {
	seconds, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
	if err != nil || !(seconds >= 0 && seconds < maxTime) {
		return 0, fmt.Errorf("%.50q must be seconds from 1970 to 9999: %w", text, errFormat)
	}
	return int64(math.Round(seconds * 1000)), nil
}

// value keeps the last parsed text. Most counters do not change between two samples.
type value struct {
	text   []byte
	parsed float64
}

func (v *value) parse(text []byte) (_ float64, err error) {
	if bytes.Equal(v.text, text) && len(text) > 0 {
		return v.parsed, nil
	}
	v.parsed, err = decimal(text)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // the number may be 1e400, which is infinite
	}
	if err != nil {
		v.text = v.text[:0]
		return 0, fmt.Errorf("%.50q: %w", text, errFormat)
	}
	v.text = append(v.text[:0], text...)
	return v.parsed, nil
}

// A float64 represents these powers of ten exactly.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// decimal returns the same value as [strconv.ParseFloat]. A decimal with at most 15 digits is the quotient of two
// numbers that a float64 represents exactly, so the division rounds correctly.
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
