package sinktest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Unprofiled returns SQL statements for rows of schema version 18, which has no profiled time: an hour of the namespace
// ml with a correction and its sums, and a pruned hour of the previous month. stamp formats times.
func Unprofiled(hour time.Time, stamp func(time.Time) string) string {
	day, month := hour.Truncate(24*time.Hour), time.Date(hour.Year(), hour.Month()-1, 1, 0, 0, 0, 0, time.UTC)
	at := func(t time.Time) string { return "'" + stamp(t) + "'" }
	charge := map[string]string{"cluster": "west", "node": "n", "uuid": "GPU-1", "namespace": "ml", "team": "old", "held_ms": "3600000"}
	board := map[string]string{"cluster": "west", "node": "n", "uuid": "GPU-1", "scrapes": "60"}
	filed := map[string]string{"cluster": "west", "state": "complete", "revision": "1", "gpus": "1", "charges": "1"}
	var b strings.Builder
	add := func(of table.Table, values map[string]string, more ...string) {
		for i := 0; i < len(more); i += 2 {
			values[more[i]] = more[i+1]
		}
		b.WriteString(insertion(of, values))
	}
	add(table.Charges, charge, "hour", at(hour), "energy_mj", "7", "pod", "p", "pod_uid", "u")
	add(table.Corrections, charge, "revision", "2", "energy_mj", "1")
	add(table.Days, charge, "day", at(day)[:11]+"'", "first_hour", at(hour), "last_hour", at(hour), "began", at(hour), "ended", at(hour.Add(time.Hour)), "hours", "1", "energy_mj", "8", "held_ms", "7200000")
	add(table.MonthlyCharges, charge, "month", at(month), "energy_mj", "5")
	add(table.GPUHours, board, "hour", at(hour), "first_seen", at(hour), "last_seen", at(hour), "energy_mj", "8")
	add(table.GPUDays, board, "day", at(day)[:11]+"'", "first_hour", at(hour), "last_hour", at(hour), "hours", "1")
	add(table.Hours, filed, "hour", at(hour), "energy_mj", "8", "state", "corrected", "revision", "2", "filed_at", at(hour.Add(2*time.Hour)))
	add(table.Hours, filed, "hour", at(month), "energy_mj", "5", "state", "pruned")
	return b.String()
}

// insertion returns a statement that inserts a row. The columns that are not given are empty, 0 or null. It omits the
// columns for profiled time.
func insertion(of table.Table, values map[string]string) string {
	var names, row []string
	for _, c := range of.Columns {
		if slices.Contains(optionalAmounts, c.Name) {
			continue
		}
		value := values[c.Name]
		switch c.Type {
		case table.Text:
			value = "'" + value + "'"
		case table.Int:
			value = cmp.Or(value, "0")
		default:
			value = cmp.Or(value, "null")
		}
		names, row = append(names, c.Name), append(row, value)
	}
	return fmt.Sprintf("insert into %s (%s) values (%s);\n", of.Name, strings.Join(names, ", "), strings.Join(row, ", "))
}
