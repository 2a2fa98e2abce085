package files_test

import (
	"encoding/csv"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/draws"
)

// rawFolder reads and changes CSV files without this package.
type rawFolder struct {
	*testing.T
	dir string
}

func (r rawFolder) Rows(of table.Table) [][]string { return csvRows(r.T, r.dir)(of) }

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

func TestChain(t *testing.T) {
	sinktest.TestChain(t, func(t *testing.T) sinktest.ChainPlace {
		dir := t.TempDir()
		read := func() chain.Source {
			r, err := files.OpenReader(t.Context(), dir)
			check(t, err)
			return r
		}
		return sinktest.ChainPlace{Sink: open(t, dir), Raw: rawFolder{t, dir}, Read: read, Manipulations: draws.Of(140, 1000)}
	})
}

// During the test, several programs write to the bucket at the same time.
func TestChainBucket(t *testing.T) {
	s := newS3(t)
	sinktest.TestChainConcurrent(t, func() sinktest.Chained { return s.open(t) }, func() chain.Source {
		r, err := files.OpenBucket(t.Context(), s.config(), "--books")
		check(t, err)
		return r
	})
}

// When a file is full, the chain must continue in a new file. A missing file must be detected.
func TestChainFiles(t *testing.T) {
	dir, keys := t.TempDir(), t.TempDir()
	s := open(t, dir)
	s.SignWith(sinktest.KeyFiles(t, filepath.Join(keys, "key.pem"), filepath.Join(keys, "public.pem")))
	for n := range 260 {
		check(t, s.Replace(t.Context(), hour(noon, int64(n+1))))
	}
	verify := func() chain.Report {
		r, err := files.OpenReader(t.Context(), dir)
		check(t, err)
		reports, err := chain.Check{}.Verify(t.Context(), r)
		check(t, err)
		return reports[0]
	}
	if r := verify(); r.Head.Sequence != 260 || len(r.Problems) > 0 {
		t.Errorf("%d entries, problems %v", r.Head.Sequence, r.Problems)
	}
	first := filepath.Join(dir, "chain", "cluster=east%2F1", "chain-0000000001.csv")
	if _, err := os.Stat(filepath.Join(filepath.Dir(first), "chain-0000000257.csv")); err != nil {
		t.Error(err)
	}
	check(t, os.Remove(first))
	if r := verify(); len(r.Problems) == 0 {
		t.Error("a missing file is not detected")
	}
}

// Readers take the cluster and the day from the names of folders. Therefore they must detect a valid file in a wrong
// folder.
func TestChainPlaces(t *testing.T) {
	for name, change := range map[string]func(move func(from, to string)){
		"nothing": func(func(from, to string)) {},
		"two clusters are swapped": func(move func(from, to string)) {
			move("*/cluster=west", "swap")
			move("*/cluster=east%2F1", "cluster=west")
			move("*/swap", "cluster=east%2F1")
		},
		"a cluster is renamed":                   func(move func(from, to string)) { move("*/cluster=west", "cluster=north") },
		"a day is moved":                         func(move func(from, to string)) { move("*/cluster=west/date=2026-03-01", "date=2026-02-28") },
		"a cluster has another folder":           func(move func(from, to string)) { move("hours/cluster=west", "+cluster=w%65st") },
		"a cluster is copied":                    func(move func(from, to string)) { move("*/cluster=west", "+cluster=north") },
		"a day is copied to a day without hours": func(move func(from, to string)) { move("*/cluster=west/date=2026-03-01", "+date=2026-02-28") },
	} {
		dir, keys := t.TempDir(), t.TempDir()
		public := filepath.Join(keys, "public.pem")
		s := open(t, dir)
		s.SignWith(sinktest.KeyFiles(t, filepath.Join(keys, "key.pem"), public))
		west := hour(noon, 5)
		west.Cluster = "west"
		check(t, s.Replace(t.Context(), hour(noon, 7)))
		check(t, s.Replace(t.Context(), sinktest.Complete(west)))
		change(func(from, to string) {
			found, err := filepath.Glob(filepath.Join(dir, from))
			check(t, err)
			if len(found) == 0 {
				t.Fatalf("%s: no folder %s", name, from)
			}
			for _, folder := range found {
				if copied, is := strings.CutPrefix(to, "+"); is {
					check(t, os.CopyFS(filepath.Join(filepath.Dir(folder), copied), os.DirFS(folder)))
				} else {
					check(t, os.Rename(folder, filepath.Join(filepath.Dir(folder), to)))
				}
			}
		})
		valid, err := chain.ReadKeys(public)
		check(t, err)
		r, err := files.OpenReader(t.Context(), dir)
		check(t, err)
		reports, err := chain.Check{Keys: valid}.Verify(t.Context(), r)
		problems := 0
		for _, report := range reports {
			problems += len(report.Problems)
		}
		if found := problems > 0 || err != nil; found != (name != "nothing") {
			t.Errorf("%s: problems of %+v, error %v", name, reports, err)
		}
	}
}
