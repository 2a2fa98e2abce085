//go:build e2e

package archive_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// testFiledTwice writes the same hours under two cluster names. Then it deletes one of them with the statements in
// docs/dba.md. The command verify must report the duplicates before the deletion, and nothing after it. The rows with
// the other cluster name must remain.
func testFiledTwice(t *testing.T, kind databases, server *server) {
	_, section, _ := strings.Cut(text(t, "../../../docs/dba.md"), "## Hours filed twice\n")
	statements := regexp.MustCompile("(?s)```sql\n(.*?)```").FindStringSubmatch(section)
	if statements == nil {
		t.Fatal("docs/dba.md has no statements")
	}
	url, db := server.create(t, "twice")
	sink, err := kind.sink(t.Context(), url)
	check(t, err)
	defer sink.Close()
	file := func(cluster string) {
		t.Helper()
		for n := range 3 {
			h := example(n)
			h.Cluster = cluster
			h.Digest = table.Digest(h)
			check(t, sink.Replace(t.Context(), h))
		}
		for _, of := range table.Appended {
			check(t, sink.Append(t.Context(), of, table.EventRows(of, cluster, sinktest.Events())))
		}
	}
	all := func() (rows []string) {
		for _, of := range table.All {
			rows = append(rows, fmt.Sprint(of.Name, appended(t, db, of, times[kind.name])))
		}
		return rows
	}
	verify := []string{"verify", "--books=" + url, "--from=" + november.Format(time.DateOnly), "--to=" + november.Format(time.DateOnly) + "T03"}
	file("east")
	want := all()
	if a := ask(t, verify...); a.status != 0 {
		t.Errorf("one name: exit status %d\n%s%s", a.status, a.out, a.errors)
	}
	file("example")
	if a := ask(t, verify...); a.status != 1 || !strings.Contains(a.out, "filed under two names, so delete the hours of one name as described in docs/dba.md") {
		t.Errorf("two names: exit status %d\n%s%s", a.status, a.out, a.errors)
	}
	script := statements[1]
	if kind.name == "PostgreSQL" {
		script = "set search_path = gpuledger;\n" + script
	}
	server.script(t, "twice", script)
	if diff := cmp.Diff(want, all()); diff != "" {
		t.Errorf("rows (-one name +deleted):\n%s", diff)
	}
	if a := ask(t, verify...); a.status != 0 {
		t.Errorf("deleted: exit status %d\n%s%s", a.status, a.out, a.errors)
	}
}
