// Package schema has the parts of the SQL schema that the databases share: the format of migrations,
// and the views.
package schema

import (
	_ "embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Views are the statements that create the views, in the dialect of MySQL. They can be repeated.
//
//go:embed views.sql
var Views string

// Migration is a step to a version of the schema. Its statements can be repeated.
type Migration struct {
	Version int
	SQL     string
}

// Load returns the migrations of a folder of files such as 001_tables.sql, sorted. The numbers must
// begin with 1 and have no gaps.
func Load(files fs.FS, folder string) ([]Migration, error) {
	names, err := fs.Glob(files, folder+"/*.sql")
	if err != nil {
		return nil, err
	}
	var all []Migration
	for i, name := range names {
		if !strings.HasPrefix(path.Base(name), fmt.Sprintf("%03d_", i+1)) {
			return nil, fmt.Errorf("%s is not migration %d", name, i+1)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		all = append(all, Migration{i + 1, string(text)})
	}
	return all, nil
}

// Script returns migrations and views as a script.
func Script(migrations []Migration, views string) string {
	var b strings.Builder
	for _, m := range migrations {
		fmt.Fprintf(&b, "-- Version %d.\n\n%s\n", m.Version, m.SQL)
	}
	return b.String() + views
}

// Statements splits a script at semicolons that end a line.
func Statements(script string) []string {
	var all []string
	for s := range strings.SplitSeq(script, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all
}

// CheckVersion returns an error if a database has a newer schema than a program.
func CheckVersion(found, latest int) error {
	if found > latest {
		return fmt.Errorf("the schema has version %d, this program supports %d: install a newer gpuledger-archive", found, latest)
	}
	return nil
}
