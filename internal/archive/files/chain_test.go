package files_test

import (
	"encoding/csv"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// rawFolder changes CSV files without this package.
type rawFolder struct {
	*testing.T
	dir string
}

func (r rawFolder) Rows(of table.Table) (all [][]string) {
	r.Helper()
	found, err := filepath.Glob(filepath.Join(r.dir, of.Name, "*", "*.csv"))
	check(r.T, err)
	deeper, err := filepath.Glob(filepath.Join(r.dir, of.Name, "*", "*", "*.csv"))
	check(r.T, err)
	for _, name := range append(found, deeper...) {
		f, err := os.Open(name)
		check(r.T, err)
		rows, err := csv.NewReader(f).ReadAll()
		check(r.T, err)
		check(r.T, f.Close())
		all = append(all, rows[1:]...)
	}
	return all
}

func (r rawFolder) Replace(of table.Table, rows [][]string) {
	r.Helper()
	check(r.T, os.RemoveAll(filepath.Join(r.dir, of.Name)))
	byFile := make(map[string][][]string)
	for _, row := range rows {
		name := filepath.Join(r.dir, of.Name, "cluster="+url.PathEscape(row[0]))
		if of.Name == table.Chain.Name {
			name = filepath.Join(name, "chain-0000000001.csv")
		} else {
			name = filepath.Join(name, "date="+row[1][:10], of.Name+".csv")
		}
		byFile[name] = append(byFile[name], row)
	}
	for name, rows := range byFile {
		check(r.T, os.MkdirAll(filepath.Dir(name), 0o755))
		f, err := os.Create(name)
		check(r.T, err)
		check(r.T, csv.NewWriter(f).WriteAll(append([][]string{of.Names()}, rows...)))
		check(r.T, f.Close())
	}
}

// TestChain runs the acceptance test of chains.
func TestChain(t *testing.T) {
	sinktest.TestChain(t, func(t *testing.T) sinktest.ChainPlace {
		dir := t.TempDir()
		read := func() chain.Source {
			r, err := files.OpenReader(t.Context(), dir)
			check(t, err)
			return r
		}
		return sinktest.ChainPlace{Sink: open(t, dir), Raw: rawFolder{t, dir}, Read: read, Manipulations: 1000}
	})
}
