package database

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// SignWith sets the key that signs the chain. If the key is nil, there is no chain.
func (d *Database) SignWith(s *chain.Signer) { d.signer = s }

// Head returns the last entry in the chain of a cluster. It returns the zero entry if the chain is empty.
func (s session) Head(ctx context.Context, cluster string) (table.Entry, error) {
	rows, err := s.rows(ctx, table.Chain, SQL(" where cluster = ? and sequence = (select max(sequence) from {chain} where cluster = ?)", cluster, cluster))
	if err != nil || len(rows) == 0 {
		return table.Entry{}, err
	}
	return table.EntryIn(rows[0]), nil
}

// chains reports whether entries must be appended. If there is a chain but no key, it returns an error.
func (t *transaction) chains(ctx context.Context, cluster string) (bool, error) {
	if t.signer != nil {
		return true, nil
	}
	last, err := t.Head(ctx, cluster)
	if err == nil && last.Sequence > 0 {
		err = fmt.Errorf("cluster %s: %w", cluster, chain.ErrKey)
	}
	return false, err
}

// If several programs call link for the same chain, they wait for each other. The first call also appends entries for
// the hours in the database.
func (t *transaction) link(ctx context.Context, cluster string, entries ...table.Entry) error {
	if on, err := t.chains(ctx, cluster); err != nil || !on {
		return err
	}
	if err := t.lock(ctx, lock{cluster: cluster}); err != nil {
		return err
	}
	last, err := t.Head(ctx, cluster)
	if err != nil {
		return fmt.Errorf("chain: %w", err)
	}
	if last.Sequence == 0 {
		adopted, err := t.adopt(ctx, cluster, entries)
		if err != nil {
			return fmt.Errorf("chain of earlier hours: %w", err)
		}
		entries = append(adopted, entries...)
	}
	if err := t.insert(ctx, table.Chain, table.EntryRows(t.signer.Append(last, entries)...)); err != nil {
		return fmt.Errorf("table %s%s: %w", t.dialect.schema, table.Chain.Name, err)
	}
	return nil
}

// adopt returns entries for the hours in the manifest. It omits hours with an entry in except.
func (t *transaction) adopt(ctx context.Context, cluster string, except []table.Entry) ([]table.Entry, error) {
	filed, err := t.rows(ctx, table.Hours, SQL(" where cluster = ? order by hour", cluster))
	if err != nil {
		return nil, err
	}
	filed = slices.DeleteFunc(filed, func(row []any) bool {
		return slices.ContainsFunc(except, func(e table.Entry) bool {
			return e.Hour.Equal(row[hourColumn].(time.Time)) && e.Kind == table.HourEntry
		})
	})
	return chain.Adopt(cluster, filed, chained{ctx, t.session, cluster})
}

// chained is a [chain.Archive] of one cluster.
type chained struct {
	ctx     context.Context
	session session
	cluster string
}

func (c chained) Rows(t table.Table, from, until time.Time) ([][]any, error) {
	return c.session.between(c.ctx, t, c.cluster, from, until)
}

// between returns the rows in [from, until). A zero time means no limit.
func (s session) between(ctx context.Context, t table.Table, cluster string, from, until time.Time) ([][]any, error) {
	where := SQL(" where cluster = ?", cluster)
	if !from.IsZero() {
		where.Add(" and "+t.Columns[hourColumn].Name+" >= ? and "+t.Columns[hourColumn].Name+" < ?", from, until)
	}
	return s.rows(ctx, t, where)
}

// filed contains the tables in which the rows of the hour were replaced.
func (t *transaction) linkHour(ctx context.Context, h *table.Hour, filed []table.Table) error {
	if on, err := t.chains(ctx, h.Cluster); err != nil || !on {
		return err
	}
	rows := make(map[string][][]any)
	for _, of := range table.Chained {
		if of.Name != table.Corrections.Name && slices.ContainsFunc(filed, func(f table.Table) bool { return f.Name == of.Name }) {
			rows[of.Name] = of.Rows(h)
			continue
		}
		found, err := t.rows(ctx, of, anHour(h.Cluster, h.Start))
		if err != nil {
			return err
		}
		rows[of.Name] = found
	}
	return t.link(ctx, h.Cluster, chain.Filed(table.Hours.Rows(h)[0], func(of table.Table) [][]any { return rows[of.Name] }))
}

// Filled implements [chain.Source].
func (r *Reader) Filled(ctx context.Context) (map[string][]time.Time, error) {
	days := make(map[string]map[time.Time]bool)
	for _, t := range slices.Concat(table.Chained, []table.Table{table.Hours, table.MonthlyCharges, table.Chain}, table.Summaries) {
		column := t.Columns[hourColumn].Name
		text := SQL("select cluster, " + column + " from {" + t.Name + "} group by cluster, " + column)
		err := r.Rows(ctx, text, []table.Type{table.Text, t.Columns[hourColumn].Type}, func(row []table.Cell) bool {
			cluster := row[0].Text
			if days[cluster] == nil {
				days[cluster] = make(map[time.Time]bool)
			}
			days[cluster][table.Day(row[1].Time())] = true
			return true
		})
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	all := make(map[string][]time.Time)
	for cluster, found := range days {
		for day := range found {
			all[cluster] = append(all[cluster], day)
		}
	}
	return all, nil
}

// Entries implements [chain.Source].
func (r *Reader) Entries(ctx context.Context, cluster string) ([]table.Entry, error) {
	return r.entries(ctx, cluster, SQL(""))
}

func (s session) entries(ctx context.Context, cluster string, and *Statement) (all []table.Entry, err error) {
	rows, err := s.rows(ctx, table.Chain, SQL(" where cluster = ?", cluster).Join(and).Add(" order by sequence"))
	for _, row := range rows {
		all = append(all, table.EntryIn(row))
	}
	return all, err
}

// Between implements [chain.Source].
func (r *Reader) Between(ctx context.Context, t table.Table, cluster string, from, until time.Time) ([][]any, error) {
	return r.between(ctx, t, cluster, from, until)
}

// DaySums implements [chain.Summing].
func (r *Reader) DaySums(ctx context.Context, t table.Table, cluster string, day time.Time) (rows [][]any, kept bool, err error) {
	rows, err = r.rows(ctx, t, SQL(" where cluster = ? and day = ?", cluster, day.Format(time.DateOnly)))
	if err != nil || len(rows) > 0 {
		return rows, true, err
	}
	found, err := r.value(ctx, SQL("select count(*) from (select 1 from {"+t.Name+"} limit 1) as found"), table.Int)
	return nil, found.Int > 0, err
}
