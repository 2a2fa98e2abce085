package chain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Summing is an archive with daily sums. Queries about long periods read them. No entry of a chain covers them, so they
// are compared with the hours.
type Summing interface {
	// DaySums returns the rows of a cluster on a day, in one of the tables [table.Summaries]. If the table is empty,
	// queries read the hours instead, and DaySums returns false.
	DaySums(ctx context.Context, t table.Table, cluster string, day time.Time) ([][]any, bool, error)
}

func (v *verification) daySums(ctx context.Context, day time.Time, hours map[time.Time]hour) error {
	s, ok := v.source.(Summing)
	if !ok || day.Before(v.From) || !v.Until.IsZero() && day.AddDate(0, 0, 1).After(v.Until) {
		return nil
	}
	for _, of := range table.Summaries {
		found, kept, err := s.DaySums(ctx, of, v.report.Cluster, day)
		if err != nil {
			return fmt.Errorf("table %s: %w", of.Name, err)
		}
		if !kept {
			continue
		}
		sums, want := make(sumsOfDay), make(sumsOfDay)
		sums.add(of, found)
		for _, rows := range hours {
			for _, from := range of.From() {
				want.add(of, of.DayRows(from, rows[from.Name]))
			}
		}
		want.forget(of)
		if !maps.EqualFunc(sums, want, slices.Equal) {
			v.problem(day, "the daily sums in %s do not match the sums of the hourly rows", of.Name)
		}
	}
	return nil
}

// sumsOfDay contains the sums and times of rows with the same strings. These strings are the key. A time is the first
// or last time in these rows, in milliseconds.
type sumsOfDay map[string][]sumOfDay

// sumOfDay is a sum or a time. known is set if at least one of the values is known.
type sumOfDay struct {
	value int64
	known bool
}

func (s sumsOfDay) add(of table.Table, rows [][]any) {
	for _, row := range rows {
		key := keyOf(row)
		if s[key] == nil {
			s[key] = make([]sumOfDay, len(row))
		}
		for i, value := range row {
			sum := &s[key][i]
			switch value := value.(type) {
			case int64:
				sum.value, sum.known = sum.value+value, true
			case time.Time:
				sum.value = extreme(of.Columns[i].Name, sum.value, value)
			}
		}
	}
}

// forget makes sums of 0 unknown if corrections have removed all profiled time, as [table.Charge.Add] does.
func (s sumsOfDay) forget(of table.Table) {
	profiled := slices.Index(of.Names(), "profiled_ms")
	for _, row := range s {
		for i, c := range of.Columns {
			if c.Type == table.OptionalInt && row[profiled].value == 0 && row[i].value == 0 {
				row[i].known = false
			}
		}
	}
}

func keyOf(row []any) string {
	var key strings.Builder
	for _, value := range row {
		if text, ok := value.(string); ok {
			key.WriteString(strconv.Quote(text))
		}
	}
	return key.String()
}

// extreme returns the earlier time for a column such as first_hour, and the later time for a column such as last_hour.
// Unknown times are 0.
func extreme(column string, known int64, value time.Time) int64 {
	switch at := value.UnixMilli(); {
	case value.IsZero():
		return known
	case known == 0:
		return at
	case strings.HasPrefix(column, "first_") || column == "began":
		return min(known, at)
	default:
		return max(known, at)
	}
}
