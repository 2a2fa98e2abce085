package books

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/address"
	"github.com/gpuledger/gpuledger/internal/archive/mysql"
	"github.com/gpuledger/gpuledger/internal/archive/postgres"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// dialect is what differs between databases.
type dialect struct {
	// parameter returns the n-th parameter of a statement, from 1.
	parameter func(n int) string
	integer   string // type of integers in a cast
	schema    string // the schema of the tables: a server of MySQL may have several archives
}

var (
	postgresDialect = dialect{func(n int) string { return "$" + strconv.Itoa(n) }, "bigint", "current_schema()"}
	mysqlDialect    = dialect{func(int) string { return "?" }, "signed", "database()"}
)

// cursor is the rows of a query.
type cursor interface {
	Next() bool
	Scan(targets ...any) error
	Err() error
	Close() error
}

// database has the books in a database of the archive.
type database struct {
	dialect
	name  string
	query func(ctx context.Context, text string, values ...any) (cursor, error)
	close func() error
	// known are the columns of the tables, as table.column: an earlier version may lack added ones.
	known map[string]bool
}

// OpenDatabase opens the books in a database. It needs the right to select only.
func OpenDatabase(ctx context.Context, url, passwordFile string) (Source, error) {
	u, err := address.Parse(url)
	if err != nil {
		return nil, errors.New("--books must be a URL such as postgres://reader@db.example.com/assets")
	}
	open := openMySQL
	if strings.HasPrefix(u.Scheme, "postgres") {
		open = openPostgres
	}
	d, err := open(ctx, url, passwordFile)
	if err != nil {
		return nil, fmt.Errorf("--books=%s: %w", address.Public(u), address.Hide(u, err))
	}
	d.name = address.Public(u)
	d.known, err = d.columns(ctx)
	return d, err
}

func openPostgres(ctx context.Context, url, _ string) (*database, error) {
	r, err := postgres.OpenReader(ctx, url)
	if err != nil {
		return nil, err
	}
	query := func(ctx context.Context, text string, values ...any) (cursor, error) {
		return r.Query(ctx, text, values...)
	}
	return &database{dialect: postgresDialect, query: query, close: r.Close}, nil
}

func openMySQL(ctx context.Context, url, passwordFile string) (*database, error) {
	db, err := mysql.OpenReader(url, passwordFile)
	if err != nil {
		return nil, err
	}
	query := func(ctx context.Context, text string, values ...any) (cursor, error) {
		return db.QueryContext(ctx, text, values...)
	}
	return &database{dialect: mysqlDialect, query: query, close: db.Close}, db.PingContext(ctx)
}

func (d *database) Close() error { return d.close() }

func (d *database) Name() string { return d.name }

// statement is a statement with its parameters.
type statement struct {
	dialect
	text   strings.Builder
	values []any
}

func (s *statement) add(text string, values ...any) {
	for _, value := range values {
		s.values = append(s.values, value)
		text = strings.Replace(text, "?", s.parameter(len(s.values)), 1)
	}
	s.text.WriteString(text)
}

// where adds the condition of a selection.
func (s *statement) where(of Selection) {
	s.add(" where hour >= ? and hour < ?", of.From, of.Until)
	for _, name := range sortedNames(of.Where) {
		s.in(" and ", name, of.Where[name])
	}
	if of.Named != "" {
		s.add(" and (serial = ? or uuid = ? or node = ? or chassis_serial = ?)", of.Named, of.Named, of.Named, of.Named)
	}
}

// in adds the condition that a column has one of some values.
func (s *statement) in(before, column string, values []string) {
	if len(values) == 0 {
		s.add(before + "1 = 0")
		return
	}
	s.add(before + column + " in (")
	for i, value := range values {
		if i > 0 {
			s.add(", ")
		}
		s.add("?", value)
	}
	s.add(")")
}

func sortedNames(where map[string][]string) []string {
	var names []string
	for name := range where {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// rows calls each for every row of a statement. Columns have the types of those in the table.
func (d *database) rows(ctx context.Context, s *statement, columns []table.Column, each func(row []table.Cell) bool) error {
	rows, err := d.query(ctx, s.text.String(), s.values...)
	if err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	defer rows.Close()
	row, targets := make([]table.Cell, len(columns)), make([]any, len(columns))
	texts, times := make([]string, len(columns)), make([]sql.NullTime, len(columns))
	for i, c := range columns {
		targets[i] = map[table.Type]any{table.Text: &texts[i], table.Int: &row[i].Int, table.Time: &times[i]}[c.Type]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		for i, c := range columns {
			switch {
			case c.Type == table.Text:
				row[i].Text = texts[i]
			case c.Type == table.Time && times[i].Valid:
				row[i].Int = times[i].Time.UnixMilli()
			case c.Type == table.Time:
				row[i].Int = 0
			}
		}
		if !each(row) {
			return nil
		}
	}
	return rows.Err()
}

// scan returns a row with the values of some columns.
func scan[T any](fields []table.Field[T], row []table.Cell) (to T) {
	for i := range fields {
		fields[i].SetCell(&to, row[i])
	}
	return to
}

// columnsOf returns columns of a table by their names.
func columnsOf(t table.Table, names []string) []table.Column {
	all := make([]table.Column, len(names))
	for i, name := range names {
		all[i], _ = t.Column(name) // a zero column is a text
	}
	return all
}

// Hours implements [Source].
func (d *database) Hours(ctx context.Context, of Selection, each func(Hour) bool) error {
	var summed map[string]map[int64]bool
	if of.Energy {
		var err error
		if summed, err = d.summed(ctx, of); err != nil {
			return err
		}
	}
	s := &statement{dialect: d.dialect}
	names := []string{"cluster", "hour", "state", "energy_mj", "gpus", "reason"}
	s.add("select cluster, hour, state, energy_mj, gpus, reason from hours")
	s.where(of)
	s.add(" order by hour, cluster")
	return d.rows(ctx, s, columnsOf(table.Hours, names), func(row []table.Cell) bool {
		h := Hour{Cluster: row[0].Text, Hour: row[1].Time(), State: table.State(row[2].Text), Energy: row[3].Int, GPUs: row[4].Int, Reason: row[5].Text}
		if of.Energy {
			h.mark(summed[h.Cluster])
		}
		return each(h)
	})
}

// GPUs implements [Source].
func (d *database) GPUs(ctx context.Context, of Selection, each func(table.GPU)) error {
	s := &statement{dialect: d.dialect}
	fields := slices.DeleteFunc(slices.Clone(of.gpuFields()), func(f table.Field[table.GPU]) bool { return d.lacks(table.GPUHours, f.Name) })
	names := namesOf(fields)
	s.add("select " + strings.Join(names, ", ") + " from gpu_hours")
	s.where(of)
	s.add(" order by hour, first_seen")
	return d.rows(ctx, s, columnsOf(table.GPUHours, names), func(row []table.Cell) bool {
		each(scan(fields, row))
		return true
	})
}

// Boards implements [Source].
func (d *database) Boards(ctx context.Context, of Selection) (found []Board, err error) {
	s := &statement{dialect: d.dialect}
	const columns = "cluster, node, uuid, serial, chassis_serial, chassis_slot, pci_bus_id"
	s.add("select " + columns + ", count(case when scrapes > 0 then 1 end) from gpu_hours")
	s.where(of)
	s.add(" group by " + columns)
	err = d.rows(ctx, s, append(make([]table.Column, 7), table.Column{Type: table.Int}), func(row []table.Cell) bool {
		found = append(found, Board{row[0].Text, row[1].Text, row[2].Text, row[3].Text, row[4].Text, row[5].Text, row[6].Text, int(row[7].Int)})
		return true
	})
	return found, err
}

// Charges implements [Source].
func (d *database) Charges(ctx context.Context, of Selection, by ...string) (found []table.Charge, err error) {
	s := &statement{dialect: d.dialect}
	names := []string{"'' as nothing"}
	names = append(names, by...)
	s.add("select " + strings.Join(names, ", "))
	for _, a := range table.Amounts {
		s.add(", cast(coalesce(" + d.sum(table.Charges, a.Name) + ", 0) as " + d.integer + ")")
	}
	s.add(" from billed")
	if slices.Contains(by, modelColumn) {
		s.add(" left join (select uuid, max(model) as model from gpu_hours where hour >= ? and hour < ? group by uuid) as models using (uuid)", of.From, of.Until)
	}
	s.where(of)
	if len(by) > 0 {
		s.add(" group by " + strings.Join(by, ", "))
	}
	columns := columnsOf(table.Charges, names)
	for range table.Amounts {
		columns = append(columns, table.Column{Type: table.Int})
	}
	all := newSums(of, by) // it sorts
	fields := append(chargeFields(by), table.Amounts...)
	err = d.rows(ctx, s, columns, func(row []table.Cell) bool {
		c := scan(fields, row[1:])
		all.add(&c)
		return true
	})
	if err == nil {
		err = d.sums(ctx, of, by, all)
	}
	return all.sorted(), err
}

// columns returns the columns of the tables, as table.column.
func (d *database) columns(ctx context.Context) (map[string]bool, error) {
	s := &statement{dialect: d.dialect}
	s.add("select table_name, column_name from information_schema.columns where table_schema = " + d.schema)
	known := make(map[string]bool)
	err := d.rows(ctx, s, make([]table.Column, 2), func(row []table.Cell) bool {
		known[row[0].Text+"."+row[1].Text] = true
		return true
	})
	return known, err
}

// lacks reports whether a table of an earlier version does not have a column.
func (d *database) lacks(t table.Table, column string) bool {
	c, err := t.Column(column)
	return err == nil && c.Added() && !d.known[t.Name+"."+column]
}

// sum returns the sum of an amount in a query.
func (d *database) sum(t table.Table, amount string) string {
	if d.lacks(t, amount) {
		return "0"
	}
	return "sum(" + amount + ")"
}

// Refused implements [Source].
func (d *database) Refused() []Refusal { return nil }

// UnknownPods implements [Source]. A database of an earlier version has none.
func (d *database) UnknownPods(ctx context.Context, of Selection) (found []UnknownPod, err error) {
	if d.lacks(table.Hours, "unknown_pods") {
		return nil, nil
	}
	s := &statement{dialect: d.dialect}
	s.add("select cluster, namespace, pod, pod_uid, count(distinct hour), cast(sum(energy_mj) as "+d.integer+") from ("+
		"select c.cluster, c.hour, c.node, c.namespace, c.pod, c.pod_uid, c.energy_mj from charges c join hours h on h.cluster = c.cluster and h.hour = c.hour"+
		" where h.unknown_pods > 0 and c.pod_uid <> '' and c.hour >= ? and c.hour < ? and not exists (select 1 from pods p where p.cluster = c.cluster and p.hour = c.hour"+
		" and (p.pod_uid = c.pod_uid or p.namespace = c.namespace and p.pod = c.pod))) as unnamed", of.From, of.Until)
	s.where(of)
	s.add(" group by cluster, namespace, pod, pod_uid order by cluster, namespace, pod, pod_uid")
	columns := append(make([]table.Column, 4), table.Column{Type: table.Int}, table.Column{Type: table.Int})
	err = d.rows(ctx, s, columns, func(row []table.Cell) bool {
		found = append(found, UnknownPod{row[0].Text, table.PodID{Namespace: row[1].Text, Pod: row[2].Text, UID: row[3].Text}, row[4].Int, row[5].Int})
		return true
	})
	return found, err
}
