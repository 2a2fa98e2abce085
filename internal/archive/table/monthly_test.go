package table_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

var march = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func TestHoursText(t *testing.T) {
	at := func(numbers ...int) (hours []time.Time) {
		for _, n := range numbers {
			hours = append(hours, march.Add(time.Duration(n)*time.Hour))
		}
		return hours
	}
	for _, tt := range []struct {
		hours []time.Time
		want  string
	}{
		{at(0), "0"}, {at(1, 0, 2), "0-2"}, {at(743, 5, 3, 4, 4, 7), "3-5,7,743"},
	} {
		if got := table.HoursText(march, tt.hours); got != tt.want {
			t.Errorf("text %q, want %q", got, tt.want)
		}
	}
	for _, text := range []string{"", "-", "1-", "2-1", "744", "0-744", "1,1", "3,2", "0-99999999999999999999", "a", "+1", "0,"} {
		if hours, err := table.ParseHours(march, text); err == nil {
			t.Errorf("%q is %v, want an error", text, hours)
		}
	}
}

// If ParseHours accepts a text, the hours must be in the month and in ascending order. If these hours are formatted and
// parsed again, they must be the same.
func FuzzParseHours(f *testing.F) {
	for _, text := range []string{"0-743", "3-5,7,743", "0,2,4", "00-007"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hours, err := table.ParseHours(march, text)
		if err != nil {
			return
		}
		for i, hour := range hours {
			if table.Month(hour) != march || i > 0 && !hour.After(hours[i-1]) {
				t.Fatalf("%q has the hour %s", text, hour)
			}
		}
		again, err := table.ParseHours(march, table.HoursText(march, hours))
		if err != nil || !slices.Equal(hours, again) {
			t.Fatalf("%q is %v, its text %v, error %v", text, hours, again, err)
		}
	})
}
