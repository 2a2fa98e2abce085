package sinktest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Chained is a sink with a hash chain.
type Chained interface {
	Renamer
	SignWith(s *chain.Signer)
}

// Raw reads and changes the tables of a sink without the sink's code. Values have the format [table.Format].
type Raw interface {
	Rows(t table.Table) [][]string
	Replace(t table.Table, rows [][]string)
}

// ChainPlace is an empty sink with access to its raw data. Read opens the sink for reading.
type ChainPlace struct {
	Sink Chained
	Raw  Raw
	Read func() chain.Source
	// Manipulations is the number of random manipulations in a test.
	Manipulations int
}

// KeyFiles writes a private key to a file in openssl's format. It appends the public key to another file.
func KeyFiles(t *testing.T, private, public string) *chain.Signer {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	check(t, os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	der, err = x509.MarshalPKIXPublicKey(pub)
	check(t, err)
	f, err := os.OpenFile(public, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	check(t, err)
	_, err = f.Write(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	check(t, err)
	check(t, f.Close())
	s, err := chain.ReadSigner(private)
	check(t, err)
	return s
}

// chainTest contains an archive with every kind of entry.
type chainTest struct {
	*testing.T
	ChainPlace
	old, current, other *chain.Signer
	keys                chain.Keys
	published           []chain.Checkpoint
	random              *mathrand.Rand
	rows                map[string][][]string // rows by table
}

var chainTables = append(slices.Clone(table.Chained), table.Hours, table.MonthlyCharges, table.Chain)

// TestChain checks that the verification finds no problem in an unchanged archive. Then it makes many random
// manipulations. After each manipulation, a problem must name the changed hour.
func TestChain(t *testing.T, open func(t *testing.T) ChainPlace) {
	place, dir := open(t), t.TempDir()
	c := &chainTest{T: t, ChainPlace: place, random: mathrand.New(mathrand.NewPCG(5, 6))}
	public := filepath.Join(dir, "public.pem")
	c.old, c.current = KeyFiles(t, filepath.Join(dir, "old.pem"), public), KeyFiles(t, filepath.Join(dir, "current.pem"), public)
	c.other = KeyFiles(t, filepath.Join(dir, "other.pem"), filepath.Join(dir, "other-public.pem"))
	var err error
	c.keys, err = chain.ReadKeys(public)
	check(t, err)
	c.file()
	if t.Failed() {
		return
	}
	c.manipulate()
}

func (c *chainTest) replace(h *history, cluster string, start time.Time, change func(*table.Hour)) *table.Hour {
	c.Helper()
	hour := h.hour(cluster, start)
	if change != nil {
		change(hour)
	}
	hour.Join() // Join sorts the rows, as in every archived hour
	hour.Digest = table.Digest(hour)
	check(c.T, c.Sink.Replace(c.Context(), hour))
	return hour
}

// file makes every kind of change to an archive, such as corrections, prunes and renames. After each step, it verifies
// the archive.
func (c *chainTest) file() {
	t, s := c.T, c.Sink
	h := &history{c.random, make(statement)}
	january, march := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	replace := func(cluster string, start time.Time, change func(*table.Hour)) *table.Hour {
		return c.replace(h, cluster, start, change)
	}
	for _, cluster := range []string{Cluster, "west"} {
		replace(cluster, january, nil)
		h.correct(t, s, replace(cluster, march, nil))
	}
	s.SignWith(c.old)
	for _, cluster := range []string{Cluster, "west"} {
		replace(cluster, january.Add(50*time.Hour), nil)
	}
	c.verifies("an hour after hours without a chain")
	for _, cluster := range []string{Cluster, "west"} {
		replace(cluster, march.Add(time.Hour), nil)
		replace(cluster, march.Add(time.Hour), func(h *table.Hour) { h.Revision = 2 })
		c.verifies("an hour that is filed again")
		h.correct(t, s, replace(cluster, march.Add(2*time.Hour), nil))
		c.verifies("a correction")
		replace(cluster, march.Add(25*time.Hour), func(h *table.Hour) { h.State, h.Reason = table.Gaps, "power cut" })
		c.verifies("an acceptance")
	}
	s.SignWith(nil)
	if err := s.Replace(t.Context(), Hour(march, 1)); !errors.Is(err, chain.ErrKey) {
		t.Errorf("error without a key is %v", err)
	}
	c.verifies("a refused hour")
	s.SignWith(c.current)
	prune(t, s, january.AddDate(0, 1, 0), false)
	c.verifies("pruning")
	replace("west", january.AddDate(0, 1, 3), nil)
	prune(t, s, march, false)
	c.verifies("pruning again")
	if _, err := s.RenameCluster(t.Context(), Cluster, NewName); err != nil {
		t.Fatal(err)
	}
	c.verifies("another name")
	for _, cluster := range []string{Cluster, NewName, "west"} {
		replace(cluster, march.Add(48*time.Hour), nil)
		c.verifies("an hour after the rename")
	}
	c.read()
}

// read reads all rows, and publishes checkpoints.
func (c *chainTest) read() {
	t := c.T
	c.rows = make(map[string][][]string)
	for _, of := range chainTables {
		if c.rows[of.Name] = c.Raw.Rows(of); len(c.rows[of.Name]) == 0 {
			t.Errorf("no rows in %s", of.Name)
		}
	}
	for _, cluster := range []string{Cluster, NewName, "west"} {
		entries, err := c.Read().Entries(t.Context(), cluster)
		check(t, err)
		c.published = append(c.published, chain.CheckpointOf("test", entries[len(entries)/2]), chain.CheckpointOf("test", entries[len(entries)-1]))
	}
	c.verifies("published checkpoints")
}

func (c *chainTest) problems(published []chain.Checkpoint) (all []chain.Problem) {
	c.Helper()
	reports, err := chain.Check{Keys: c.keys, Published: published}.Verify(c.Context(), c.Read())
	check(c.T, err)
	for _, r := range reports {
		all = append(all, r.Problems...)
	}
	return all
}

func (c *chainTest) verifies(after string) {
	c.Helper()
	for _, p := range c.problems(c.published) {
		c.Errorf("after %s: %s", after, p)
	}
}

// TestChainConcurrent checks that a chain does not fork if several programs write hours of its cluster at the same
// time. open opens the sink for one of these programs.
func TestChainConcurrent(t *testing.T, open func() Chained, read func() chain.Source) {
	dir := t.TempDir()
	public := filepath.Join(dir, "public.pem")
	signer := KeyFiles(t, filepath.Join(dir, "key.pem"), public)
	keys, err := chain.ReadKeys(public)
	check(t, err)
	const programs, filings = 3, 8
	failed := make(chan error)
	for n := range programs {
		s := open()
		s.SignWith(signer)
		go func() {
			var err error
			for i := 0; err == nil && i < filings; i++ { // other programs write the same hours with other charges
				h := Hour(Noon.Add(time.Duration(i%4)*25*time.Hour), int64(n*filings+i+1))
				err = s.Replace(t.Context(), h)
			}
			failed <- err
		}()
	}
	for range programs {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	reports, err := chain.Check{Keys: keys}.Verify(t.Context(), read())
	check(t, err)
	for _, r := range reports {
		if r.Head.Sequence < programs*filings || r.Hours != 4 {
			t.Errorf("%d entries for %d hours", r.Head.Sequence, r.Hours)
		}
		for _, p := range r.Problems {
			t.Error(p)
		}
	}
	if len(reports) != 1 {
		t.Errorf("%d reports", len(reports))
	}
}
