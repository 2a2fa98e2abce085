//go:build e2e

package archive_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// times contains an SQL expression for each database that formats a time column like [table.Format].
var times = map[string]string{
	"PostgreSQL": `to_char(%s at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`,
	"MariaDB":    `concat(left(date_format(%s, '%%Y-%%m-%%dT%%H:%%i:%%s.%%f'), 23), 'Z')`,
}

// testAppend connects as a user who may not change tables, and adds the same events from several programs. The database
// must store each event once.
func testAppend(t *testing.T, kind databases, server *server) {
	admin, db := server.create(t, "events")
	owner, err := kind.sink(t.Context(), admin)
	check(t, err)
	// The owner creates the partitions, because the other user cannot create them.
	for _, of := range table.Appended {
		check(t, owner.Append(t.Context(), of, table.EventRows(of, "other", sinktest.Events())))
	}
	check(t, owner.Close())
	url := server.stranger(t, "events")
	failed := concurrently(t, kind, url, func(n int, sink closer) (err error) {
		for _, of := range table.Appended {
			events := sinktest.Events()
			if n%2 == 0 {
				events[0], events[1], events[2] = events[2], events[0], events[1]
			}
			err = errors.Join(err, sink.Append(t.Context(), of, table.EventRows(of, sinktest.Cluster, events)))
		}
		return err
	})
	for range atOnce {
		check(t, <-failed)
	}
	sinktest.TestAppend(t, func(t *testing.T) (sinktest.Appender, sinktest.Rows) {
		sink, err := kind.sink(t.Context(), url)
		check(t, err)
		t.Cleanup(func() { check(t, sink.Close()) })
		return sink, func(of table.Table) [][]string { return appended(t, db, of, times[kind.name]) }
	})
}

func appended(t *testing.T, db query, of table.Table, text string) (all [][]string) {
	t.Helper()
	var columns []string
	for _, c := range of.Columns {
		switch name := c.Name; c.Type {
		case table.Time:
			columns = append(columns, "coalesce("+fmt.Sprintf(text, name)+", '')")
		case table.OptionalInt:
			columns = append(columns, "coalesce(concat("+name+", ''), '')")
		default:
			columns = append(columns, name)
		}
	}
	for _, line := range db.rows(t, "select "+strings.Join(columns, ", ")+" from "+of.Name+" where cluster <> 'other'") {
		all = append(all, strings.Split(line, " | "))
	}
	return all
}
