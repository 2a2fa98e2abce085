package books

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/address"
	sqldb "github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

type database struct {
	*sqldb.Reader
	name string
	// known contains the columns of all tables, as table.column. A database from an earlier version may lack the newer
	// columns.
	known map[string]bool
}

// OpenDatabase opens an archive in a database. The user needs only the select privilege.
func OpenDatabase(ctx context.Context, url, passwordFile string) (Source, error) {
	u, err := address.Parse(url)
	if err != nil {
		return nil, errors.New("--books must be a URL such as postgres://reader@db.example.com/assets")
	}
	kind := sqldb.MySQL
	if strings.HasPrefix(u.Scheme, "postgres") {
		kind = sqldb.Postgres
	}
	r, err := kind.OpenReader(ctx, url, passwordFile)
	if err != nil {
		return nil, fmt.Errorf("--books=%s: %w", address.Public(u), address.Hide(u, err))
	}
	return newDatabase(ctx, r, address.Public(u))
}

// OpenSQLite opens an archive in an SQLite file.
func OpenSQLite(ctx context.Context, path string) (Source, error) {
	r, err := sqldb.SQLite.OpenReader(ctx, path, "")
	if err != nil {
		return nil, fmt.Errorf("--books=%s: %w", path, err)
	}
	return newDatabase(ctx, r, path)
}

func newDatabase(ctx context.Context, r *sqldb.Reader, name string) (Source, error) {
	known, err := r.Columns(ctx)
	return &database{r, name, known}, err
}

func (d *database) Name() string { return d.name }

func (s Query) where() *sqldb.Statement { return s.condition(span{false, s.From, s.Until}) }

func (s Query) condition(of span) *sqldb.Statement {
	where := of.where().Join(s.names())
	if s.Named != "" {
		where.Add(" and (serial = ? or uuid = ? or node = ? or chassis_serial = ?)", s.Named, s.Named, s.Named, s.Named)
	}
	return where
}

// ofClusters keeps only the period and the clusters of a query. The tables of hours and unknown pods have no other
// columns that a query can select.
func (s Query) ofClusters() Query {
	clusters := Query{From: s.From, Until: s.Until}
	if names, ok := s.Where["cluster"]; ok {
		clusters.Where = map[string][]string{"cluster": names}
	}
	return clusters
}

func (s Query) names() *sqldb.Statement {
	and := new(sqldb.Statement)
	for _, name := range sortedNames(s.Where) {
		and.Add(" and "+name+" in (?)", s.Where[name])
	}
	return and
}

func sortedNames(where map[string][]string) []string { return slices.Sorted(maps.Keys(where)) }

func (d *database) rows(ctx context.Context, s *sqldb.Statement, columns []table.Column, each func(row []table.Cell) error) error {
	types := make([]table.Type, len(columns))
	for i, c := range columns {
		types[i] = c.Type
	}
	var failed error
	err := d.Reader.Rows(ctx, s, types, func(row []table.Cell) bool {
		failed = each(row)
		return failed == nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return failed
}

func scan[T any](fields []table.Field[T], row []table.Cell) (to T) {
	for i := range fields {
		fields[i].SetCell(&to, row[i])
	}
	return to
}

func columnsOf(t table.Table, names []string) []table.Column {
	all := make([]table.Column, len(names))
	for i, name := range names {
		all[i], _ = t.Column(name) // for an unknown name, the zero column is a text column
	}
	return all
}

// Hours implements [Source].
func (d *database) Hours(ctx context.Context, of Query) iter.Seq2[Hour, error] {
	return sequence(func(each func(Hour) error) error {
		names := []string{"cluster", "hour", "state", "energy_mj", "gpus", "reason"}
		s := sqldb.SQL("select " + strings.Join(names[:5], ", "))
		if d.lacks(table.Hours, "reason") {
			s.Add(", ''")
		} else {
			s.Add(", reason")
		}
		s.Add(" from {hours}").Join(of.ofClusters().where()).Add(" order by hour, cluster")
		return d.rows(ctx, s, columnsOf(table.Hours, names), func(row []table.Cell) error {
			return each(Hour{Cluster: row[0].Text, Hour: row[1].Time(), State: table.State(row[2].Text), Energy: row[3].Int, GPUs: row[4].Int, Reason: row[5].Text})
		})
	})
}

// Rows implements [Source].
func (d *database) Rows(ctx context.Context, of Query) iter.Seq2[Row, error] {
	return sequence(func(each func(Row) error) error {
		if of.Places {
			return d.places(ctx, of, each)
		}
		return d.gpus(ctx, of, each)
	})
}

func (d *database) gpus(ctx context.Context, of Query, each func(Row) error) error {
	fields := slices.DeleteFunc(slices.Clone(of.gpuFields()), func(f table.Field[table.GPU]) bool { return d.lacks(table.GPUHours, f.Name) })
	names := namesOf(fields)
	s := sqldb.SQL("select " + strings.Join(names, ", ") + " from {gpu_hours}").Join(of.where()).Add(" order by hour, first_seen")
	return d.rows(ctx, s, columnsOf(table.GPUHours, names), func(row []table.Cell) error {
		return each(Row{GPU: scan(fields, row)})
	})
}

// Boards implements [Source].
func (d *database) Boards(ctx context.Context, of Query) (found []Board, err error) {
	const columns = "cluster, node, uuid, serial, chassis_serial, chassis_slot, pci_bus_id"
	counts := make(map[Board]int)
	parts, err := d.spans(ctx, of, table.GPUDays)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		s := sqldb.SQL("select " + columns + ", coalesce(sum(case when scrapes > 0 then " + part.table("1", "hours") + " end), 0) from {" + part.table("gpu_hours", "gpu_days") + "}").
			Join(of.condition(part)).Add(" group by " + columns)
		err = d.rows(ctx, s, append(make([]table.Column, 7), table.Column{Type: table.Int}), func(row []table.Cell) error {
			counts[Board{row[0].Text, row[1].Text, row[2].Text, row[3].Text, row[4].Text, row[5].Text, row[6].Text, 0}] += int(row[7].Int)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for board, hours := range counts {
		board.Hours = hours
		found = append(found, board)
	}
	return found, nil
}

// Counted implements [Source].
func (d *database) Counted(ctx context.Context, of Query) ([]Board, []Hour, error) {
	return counted(ctx, d, of)
}

// Statement implements [Source].
func (d *database) Statement(ctx context.Context, of Query) (st *Statement, err error) {
	st = new(Statement)
	if st.Charges, err = d.charges(ctx, of); err != nil {
		return nil, err
	}
	if st.Hours, err = d.markedHours(ctx, of); err != nil {
		return nil, err
	}
	if of.Rows {
		if st.Rows, err = collect(d.Rows(ctx, of)); err != nil {
			return nil, err
		}
	}
	if of.Checks {
		err = d.check(ctx, of, st)
	}
	return st, err
}

// markedHours marks an hour as pruned if a monthly sum includes the hour.
func (d *database) markedHours(ctx context.Context, of Query) ([]Hour, error) {
	all, err := collect(d.Hours(ctx, of))
	if err != nil {
		return nil, err
	}
	summed, err := d.summed(ctx, of)
	for i := range all {
		all[i].mark(summed[all[i].Cluster])
	}
	return all, err
}

func (d *database) check(ctx context.Context, of Query, to *Statement) (err error) {
	if to.UnknownPods, err = d.unknownPods(ctx, of); err != nil {
		return err
	}
	to.Uncounted, to.Bounded, err = d.uncounted(ctx, of)
	return err
}

func (d *database) charges(ctx context.Context, of Query) ([]table.Charge, error) {
	all := newSums(of) // sorts the charges
	parts, err := d.chargeSpans(ctx, of)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		if err := d.chargesIn(ctx, of, part, all); err != nil {
			return nil, err
		}
	}
	err = d.sums(ctx, of, all)
	return all.sorted(), err
}

func (d *database) chargesIn(ctx context.Context, of Query, part chargeSpan, to *sums) error {
	names := append([]string{"'' as empty_text"}, of.By...)
	columns := columnsOf(table.Charges, names)
	if i := slices.Index(names, hourColumn); i >= 0 {
		names[i] = part.table(hourColumn, "day")
	}
	s := sqldb.SQL("select " + strings.Join(names, ", "))
	for _, a := range table.Amounts {
		s.Add(", " + d.sum(table.Charges, a.Column))
		columns = append(columns, table.Column{Type: a.Type})
	}
	s.Add(" from ")
	if slices.Contains(of.By, modelColumn) {
		s.Join(d.modelled(part)).Join(of.names())
	} else {
		s.Add("{" + part.table("billed", table.Days.Name) + "}").Join(of.condition(part.span))
	}
	if len(of.By) > 0 {
		s.Add(" group by " + strings.Join(names[1:], ", "))
	}
	fields := append(fieldsOf(table.ChargeField, of.By), table.Amounts...)
	return d.rows(ctx, s, columns, func(row []table.Cell) error {
		c := scan(fields, row[1:])
		to.add(&c)
		return to.check()
	})
}

// lacks reports whether the table was created by an earlier version, without this column.
func (d *database) lacks(t table.Table, column string) bool {
	c, err := t.Column(column)
	return err == nil && c.Added() && !d.known[t.Name+"."+column]
}

// If there are no rows, the SQL expression is 0. If the value may also be unknown, the expression is null.
func (d *database) sum(t table.Table, amount table.Column) string {
	switch optional := amount.Type == table.OptionalInt; {
	case d.lacks(t, amount.Name) && optional:
		return "null"
	case d.lacks(t, amount.Name):
		return "0"
	case optional:
		return "sum(" + amount.Name + ")"
	}
	return "coalesce(sum(" + amount.Name + "), 0)"
}

func (d *database) unknownPods(ctx context.Context, of Query) ([]UnknownPod, error) {
	if d.lacks(table.Hours, "unknown_pods") {
		return nil, nil
	}
	var hours []Hour
	s := sqldb.SQL("select cluster, hour from {hours}").Join(of.ofClusters().where()).Add(" and unknown_pods > 0")
	err := d.rows(ctx, s, columnsOf(table.Hours, []string{"cluster", hourColumn}), func(row []table.Cell) error {
		hours = append(hours, Hour{Cluster: row[0].Text, Hour: row[1].Time()})
		return nil
	})
	all := make(unknownPods)
	for _, hour := range hours {
		if err := d.unknownPodsIn(ctx, hour, all); err != nil {
			return nil, err
		}
	}
	return all.sorted(), err
}

// The subqueries for the known pods do not depend on the charge, so a database evaluates them only once.
func (d *database) unknownPodsIn(ctx context.Context, in Hour, to unknownPods) error {
	const known = " from {pods} where cluster = ? and hour = ?)"
	s := sqldb.SQL("select namespace, pod, pod_uid, sum(energy_mj) from {charges} where cluster = ? and hour = ? and pod_uid <> ''", in.Cluster, in.Hour).
		Add(" and pod_uid not in (select pod_uid"+known, in.Cluster, in.Hour).
		Add(" and (namespace, pod) not in (select namespace, pod"+known, in.Cluster, in.Hour).
		Add(" group by namespace, pod, pod_uid")
	columns := append(make([]table.Column, 3), table.Column{Type: table.Int})
	return d.rows(ctx, s, columns, func(row []table.Cell) error {
		to.add(in.Cluster, table.PodID{Namespace: row[0].Text, Pod: row[1].Text, UID: row[2].Text}, row[3].Int)
		return nil
	})
}
