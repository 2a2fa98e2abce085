package sinktest

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Chained is a sink with a chain.
type Chained interface {
	Renamer
	SignWith(s *chain.Signer)
}

// Raw changes a sink without its program. A row contains texts as in [table.Format].
type Raw interface {
	Rows(t table.Table) [][]string
	Replace(t table.Table, rows [][]string)
}

// ChainPlace is an empty sink, with its data and a function that opens it for reading.
type ChainPlace struct {
	Sink Chained
	Raw  Raw
	Read func() chain.Source
	// Manipulations is the number of random manipulations.
	Manipulations int
}

// KeyFiles writes a private key and appends its public key to a file, as openssl does.
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

// chainTest is an archive with all kinds of entries.
type chainTest struct {
	*testing.T
	ChainPlace
	old, current, other *chain.Signer
	keys                chain.Keys
	published           []chain.Checkpoint
	random              *mathrand.Rand
	rows                map[string][][]string // by table
}

// chainTables are the tables that the chain covers, and the chain.
var chainTables = append(slices.Clone(table.Chained), table.Hours, table.MonthlyCharges, table.Chain)

// TestChain checks that an archive always verifies against its chain, and that each of many random
// manipulations is found and names its hour.
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

// replace files an hour with random charges.
func (c *chainTest) replace(h *history, cluster string, start time.Time, change func(*table.Hour)) *table.Hour {
	c.Helper()
	hour := h.hour(cluster, start)
	if change != nil {
		change(hour)
	}
	hour.Join() // sorts the rows, as in every hour that is filed
	hour.Digest = table.Digest(hour)
	check(c.T, c.Sink.Replace(c.Context(), hour))
	return hour
}

// file files hours in all ways, and verifies after each step.
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

// read reads the rows, and publishes checkpoints.
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

// problems returns the problems of the archive.
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

// place is an hour of a cluster, as texts.
type place struct{ cluster, hour string }

// manipulation changes rows, and returns the hours with a change. It returns nil if the random row does
// not suit it.
type manipulation struct {
	name   string
	change func(*chainTest) []place
	// published means that only published checkpoints reveal it.
	published bool
}

var manipulations = []manipulation{
	{"change a value", (*chainTest).changeValue, false},
	{"remove a row", (*chainTest).removeRow, false},
	{"insert a row", (*chainTest).insertRow, false},
	{"remove an hour", (*chainTest).removeHour, false},
	{"swap two hours", (*chainTest).swapHours, false},
	{"remove an acceptance", (*chainTest).removeAcceptance, false},
	{"mark an hour as pruned", (*chainTest).markPruned, false},
	{"edit an entry", (*chainTest).editEntry, false},
	{"remove an entry", (*chainTest).removeEntry, false},
	{"truncate the chain", (*chainTest).truncate, false},
	{"replace a signature", (*chainTest).replaceSignature, false},
	{"rewrite the chain with another key", func(c *chainTest) []place { return c.rewrite(c.other) }, false},
	{"rewrite the chain with the same key", func(c *chainTest) []place { return c.rewrite(c.current) }, true},
	{"restore an earlier state", (*chainTest).rollBack, true},
}

// manipulate makes random manipulations, one after the other: all kinds in a random order, again and again.
func (c *chainTest) manipulate() {
	found, counts := 0, make(map[string]int)
	n := c.Manipulations
	if testing.Short() {
		n = max(n/10, 2*len(manipulations))
	}
	var order []int
	for i := 0; i < n; {
		if len(order) == 0 {
			order = c.random.Perm(len(manipulations))
		}
		m := manipulations[order[0]]
		order = order[1:]
		before := make(map[string][][]string)
		for name, rows := range c.rows {
			before[name] = rows
			c.rows[name] = nil
			for _, row := range rows {
				c.rows[name] = append(c.rows[name], slices.Clone(row))
			}
		}
		changed := m.change(c)
		if changed != nil {
			i++
			counts[m.name]++
			var published []chain.Checkpoint
			if m.published {
				published = c.published
			}
			c.write(before, c.rows)
			if c.reveals(m, changed, c.problems(published)) {
				found++
			}
			c.write(c.rows, before)
		}
		c.rows = before
	}
	c.verifies("undoing all manipulations")
	c.Logf("found %d of %d manipulations: %v", found, n, counts)
	if len(counts) != len(manipulations) {
		c.Errorf("only %d kinds of manipulations", len(counts))
	}
}

// write writes the tables with changes.
func (c *chainTest) write(from, to map[string][][]string) {
	for _, of := range chainTables {
		if !slices.EqualFunc(from[of.Name], to[of.Name], slices.Equal[[]string]) {
			c.Raw.Replace(of, to[of.Name])
		}
	}
}

// reveals reports whether a problem names one of the changed hours.
func (c *chainTest) reveals(m manipulation, changed []place, problems []chain.Problem) bool {
	named := slices.ContainsFunc(problems, func(p chain.Problem) bool {
		return slices.Contains(changed, place{p.Cluster, table.Format(p.Hour)})
	})
	if !named {
		c.Errorf("%s of %v: problems %v", m.name, changed, problems)
	}
	return named
}

// row returns a random row of tables.
func (c *chainTest) row(tables ...table.Table) (table.Table, int) {
	of := tables[c.random.IntN(len(tables))]
	return of, c.random.IntN(len(c.rows[of.Name]))
}

func placeOf(row []string) place { return place{row[0], row[1]} }

// changed returns another value of a column.
func changed(of table.Column, text string) string {
	switch of.Type {
	case table.Int:
		n, _ := strconv.ParseInt(text, 10, 64)
		return strconv.FormatInt(n+1, 10)
	case table.OptionalInt:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "0" // in place of an unknown number
		}
		return strconv.FormatInt(n+1, 10)
	case table.Time:
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			at = Noon
		}
		return table.Format(at.Add(time.Hour * 24 * 365))
	}
	return text + "x"
}

var coveredTables = append(slices.Clone(table.Chained), table.Hours, table.MonthlyCharges)

func (c *chainTest) changeValue() []place {
	of, i := c.row(coveredTables...)
	row := c.rows[of.Name][i]
	at := placeOf(row)
	column := c.random.IntN(len(row))
	row[column] = changed(of.Columns[column], row[column])
	return []place{at, placeOf(row)}
}

func (c *chainTest) removeRow() []place {
	of, i := c.row(coveredTables...)
	at := placeOf(c.rows[of.Name][i])
	c.rows[of.Name] = slices.Delete(c.rows[of.Name], i, i+1)
	return []place{at}
}

// insertRow inserts a row with another key: in another cluster or hour, or with another attribute.
func (c *chainTest) insertRow() []place {
	of, i := c.row(coveredTables...)
	row := slices.Clone(c.rows[of.Name][i])
	key := of.Columns[c.random.IntN(2)].Name
	if n := len(of.Key); n > 2 {
		key = of.Key[c.random.IntN(n)]
	}
	column := slices.Index(of.Names(), key)
	row[column] = changed(of.Columns[column], row[column])
	c.rows[of.Name] = append(c.rows[of.Name], row)
	return []place{placeOf(row)}
}

// hours returns two random hours with rows.
func (c *chainTest) hours() (a, b place) {
	_, i := c.row(table.Hours)
	_, j := c.row(table.Hours)
	return placeOf(c.rows[table.Hours.Name][i]), placeOf(c.rows[table.Hours.Name][j])
}

func (c *chainTest) removeHour() []place {
	at, _ := c.hours()
	for _, of := range append(slices.Clone(table.Chained), table.Hours) {
		c.rows[of.Name] = slices.DeleteFunc(c.rows[of.Name], func(row []string) bool { return placeOf(row) == at })
	}
	return []place{at}
}

// markPruned removes the rows of an hour as if it was pruned.
func (c *chainTest) markPruned() []place {
	_, i := c.row(table.Hours)
	row, state := c.rows[table.Hours.Name][i], slices.Index(table.Hours.Names(), "state")
	if row[state] == string(table.Pruned) {
		return nil
	}
	row[state] = string(table.Pruned)
	for _, of := range table.Chained {
		c.rows[of.Name] = slices.DeleteFunc(c.rows[of.Name], func(other []string) bool { return placeOf(other) == placeOf(row) })
	}
	return []place{placeOf(row)}
}

func (c *chainTest) swapHours() []place {
	a, b := c.hours()
	if a == b {
		return nil
	}
	for _, of := range append(slices.Clone(table.Chained), table.Hours) {
		for _, row := range c.rows[of.Name] {
			switch placeOf(row) {
			case a:
				row[0], row[1] = b.cluster, b.hour
			case b:
				row[0], row[1] = a.cluster, a.hour
			}
		}
	}
	return []place{a, b}
}

func (c *chainTest) removeAcceptance() []place {
	state, reason := slices.Index(table.Hours.Names(), "state"), slices.Index(table.Hours.Names(), "reason")
	var accepted [][]string
	for _, row := range c.rows[table.Hours.Name] {
		if row[state] == string(table.Gaps) {
			accepted = append(accepted, row)
		}
	}
	row := accepted[c.random.IntN(len(accepted))]
	row[state], row[reason] = string(table.Complete), ""
	return []place{placeOf(row)}
}

// entry returns a random entry, and the hours that a problem may name: its own, and of the next entry.
func (c *chainTest) entry() (i int, at []place) {
	entries := c.rows[table.Chain.Name]
	i = c.random.IntN(len(entries))
	at = []place{placeOf(entries[i])}
	for _, other := range entries {
		if other[0] == entries[i][0] && number(other) == number(entries[i])+1 {
			at = append(at, placeOf(other))
		}
	}
	return i, at
}

// number returns the sequence number of an entry.
func number(row []string) int {
	n, _ := strconv.Atoi(row[2])
	return n
}

func (c *chainTest) editEntry() []place {
	i, at := c.entry()
	row := c.rows[table.Chain.Name][i]
	column := c.random.IntN(len(row))
	row[column] = changed(table.Chain.Columns[column], row[column])
	if column == 2 {
		row[column] = strconv.Itoa(number(row) + 1000)
	}
	return append(at, placeOf(row))
}

func (c *chainTest) removeEntry() []place {
	i, at := c.entry()
	c.rows[table.Chain.Name] = slices.Delete(c.rows[table.Chain.Name], i, i+1)
	return at
}

// truncate removes the last entries of a cluster.
func (c *chainTest) truncate() (at []place) {
	i, _ := c.entry()
	first := c.rows[table.Chain.Name][i]
	c.rows[table.Chain.Name] = slices.DeleteFunc(c.rows[table.Chain.Name], func(row []string) bool {
		removed := row[0] == first[0] && number(row) >= number(first)
		if removed {
			at = append(at, placeOf(row))
		}
		return removed
	})
	return at
}

// replaceSignature replaces a signature by another one, by the signature of another key, or by none.
func (c *chainTest) replaceSignature() []place {
	i, at := c.entry()
	row := c.rows[table.Chain.Name][i]
	key, signature := len(row)-2, len(row)-1
	if row[signature] == "" {
		return nil
	}
	switch c.random.IntN(3) {
	case 0:
		row[signature] = c.other.Append(table.Entry{}, []table.Entry{{Cluster: row[0]}})[0].Signature
	case 1:
		row[key], row[signature] = "", ""
	case 2:
		other := c.rows[table.Chain.Name][c.random.IntN(len(c.rows[table.Chain.Name]))]
		if other[signature] == row[signature] {
			return nil
		}
		row[signature] = other[signature]
	}
	return at
}

// rewrite changes the energy of a charge, and makes a new chain that fits.
func (c *chainTest) rewrite(by *chain.Signer) []place {
	_, i := c.row(table.Charges)
	row := c.rows[table.Charges.Name][i]
	column := slices.Index(table.Charges.Names(), "energy_mj")
	row[column] = changed(table.Charges.Columns[column], row[column])
	entries, at := c.entries(row[0]), placeOf(row)
	rows := func(of table.Table) (found [][]any) {
		for _, row := range c.rows[of.Name] {
			if placeOf(row) == at {
				found = append(found, values(c.T, of, row))
			}
		}
		return found
	}
	var all []place
	for i := range entries {
		if e := &entries[i]; (place{e.Cluster, table.Format(e.Hour)}) == at && e.Kind != table.SumsEntry {
			e.Kind, e.Rows = table.HourEntry, table.RowsDigest(rows)
		}
		all = append(all, place{entries[i].Cluster, table.Format(entries[i].Hour)})
	}
	c.replaceChain(row[0], by.Append(table.Entry{}, entries))
	return all
}

// rollBack removes the newest entry of a cluster with its hour.
func (c *chainTest) rollBack() []place {
	i, _ := c.entry()
	entries := c.entries(c.rows[table.Chain.Name][i][0])
	last := entries[len(entries)-1]
	at := place{last.Cluster, table.Format(last.Hour)}
	for _, of := range append(slices.Clone(table.Chained), table.Hours) {
		c.rows[of.Name] = slices.DeleteFunc(c.rows[of.Name], func(row []string) bool { return placeOf(row) == at })
	}
	c.replaceChain(last.Cluster, entries[:len(entries)-1])
	return []place{{last.Cluster, ""}, at}
}

// entries returns the chain of a cluster.
func (c *chainTest) entries(cluster string) (all []table.Entry) {
	for _, row := range c.rows[table.Chain.Name] {
		if row[0] == cluster {
			all = append(all, table.EntryIn(values(c.T, table.Chain, row)))
		}
	}
	slices.SortFunc(all, func(a, b table.Entry) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return all
}

func (c *chainTest) replaceChain(cluster string, entries []table.Entry) {
	rows := slices.DeleteFunc(c.rows[table.Chain.Name], func(row []string) bool { return row[0] == cluster })
	for _, row := range table.EntryRows(entries...) {
		texts := make([]string, len(row))
		for i, value := range row {
			texts[i] = table.Format(value)
		}
		rows = append(rows, texts)
	}
	c.rows[table.Chain.Name] = rows
}

// values returns a row with values as in [table.Table].
func values(t *testing.T, of table.Table, row []string) []any {
	t.Helper()
	all := make([]any, len(row))
	for i, text := range row {
		cell, err := of.Columns[i].ParseCell(text)
		check(t, err)
		all[i] = cell.Value(of.Columns[i].Type)
	}
	return all
}

// String describes a place in a failed test.
func (p place) String() string {
	return fmt.Sprintf("%s %s", p.cluster, strings.TrimSuffix(p.hour, ":00:00.000Z"))
}

// TestChainConcurrent checks that programs that file hours of a cluster at the same time do not fork its
// chain. open opens the same sink again for each program.
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
			for i := 0; err == nil && i < filings; i++ { // other programs file the same hours with other charges
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
			t.Errorf("%d entries of %d hours", r.Head.Sequence, r.Hours)
		}
		for _, p := range r.Problems {
			t.Error(p)
		}
	}
	if len(reports) != 1 {
		t.Errorf("%d reports", len(reports))
	}
}
