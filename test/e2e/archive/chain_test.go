//go:build e2e

package archive_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// rawDatabase changes the rows of a database directly, without the program.
type rawDatabase struct {
	*testing.T
	kind string
	db   query
}

func (r rawDatabase) Rows(of table.Table) [][]string { return appended(r.T, r.db, of, times[r.kind]) }

func (r rawDatabase) Replace(of table.Table, rows [][]string) {
	r.Helper()
	r.db.rows(r.T, "delete from "+of.Name)
	names := strings.Join(of.Names(), ", ")
	numbered := r.kind == "MariaDB" && slices.ContainsFunc(table.Chained, func(t table.Table) bool { return t.Name == of.Name })
	if numbered {
		names += ", n" // expression that numbers the rows of an hour
	}
	var all []string
	for n, row := range rows {
		values := make([]string, len(row))
		for i, text := range row {
			values[i] = r.literal(of.Columns[i].Type, text)
		}
		if numbered {
			values = append(values, strconv.Itoa(n))
		}
		all = append(all, "("+strings.Join(values, ", ")+")")
	}
	if len(all) > 0 {
		r.db.rows(r.T, "insert into "+of.Name+" ("+names+") values "+strings.Join(all, ", "))
	}
}

func (r rawDatabase) literal(as table.Type, text string) string {
	switch {
	case as == table.Int, as == table.OptionalInt && text != "":
		return text
	case (as == table.Time || as == table.OptionalInt) && text == "":
		return "null"
	case r.kind == "MariaDB" && as == table.Time:
		text = strings.NewReplacer("T", " ", "Z", "").Replace(text)
	case r.kind == "MariaDB":
		text = strings.ReplaceAll(text, `\`, `\\`)
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// testChain runs as a user who may not change tables.
func testChain(t *testing.T, kind databases, server *server) {
	sinktest.TestChain(t, func(t *testing.T) sinktest.ChainPlace {
		sink, url, db := kind.unchanged(t, server)
		r, err := kind.dialect.OpenReader(t.Context(), url, "")
		check(t, err)
		t.Cleanup(func() { check(t, r.Close()) })
		return sinktest.ChainPlace{Sink: sink, Raw: rawDatabase{t, kind.name, db}, Read: func() chain.Source { return r }, Manipulations: 100}
	})
}
