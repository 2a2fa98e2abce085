package books

import (
	"context"
	"maps"
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// folderStatement computes a statement day by day from the files.
type folderStatement struct {
	*folder
	Query
	Statement
	columns []string // columns of charges to read
	fields  []table.Field[table.Charge]
	charges *sums
	summed  map[table.ClusterMonth]map[int64]bool // hours that are included in monthly sums, as Unix seconds
	pods    unknownPods
	bounds  uncounted
	audit   *Audit // nil unless the statement is for an audit
}

// Statement implements [Source].
func (f *folder) Statement(ctx context.Context, of Query) (*Statement, error) {
	return f.statement(of).read(ctx)
}

func (f *folder) statement(of Query) *folderStatement {
	columns := of.chargeColumns()
	return &folderStatement{
		folder: f, Query: of, columns: columns, fields: fieldsOf(table.ChargeField, columns), charges: newSums(of),
		summed: make(map[table.ClusterMonth]map[int64]bool), pods: make(unknownPods), bounds: make(uncounted),
	}
}

func (s *folderStatement) read(ctx context.Context) (*Statement, error) {
	err := s.days(ctx, s.Query, func(day filedDay) error { return s.add(ctx, day) })
	if err == nil {
		err = s.sums(ctx, s.Query, s.charges)
	}
	if err == nil && s.Query.Rows {
		s.Statement.Rows, err = collect(s.folder.Rows(ctx, s.Query))
	}
	s.Charges, s.UnknownPods, s.Uncounted, s.Bounded = s.charges.sorted(), s.pods.sorted(), s.bounds.sorted(), s.Checks
	return &s.Statement, err
}

func (s Query) chargeColumns() []string {
	columns := []string{hourColumn}
	for name := range s.Where {
		columns = append(columns, name)
	}
	columns = append(columns, s.By...)
	if slices.Contains(s.By, modelColumn) {
		columns = append(columns, "node", "uuid")
	}
	slices.Sort(columns[1:])
	columns = slices.Compact(columns)
	columns = slices.DeleteFunc(columns, func(name string) bool { return name == modelColumn || name == "cluster" })
	return append(columns, namesOf(table.Amounts)...)
}

func (s *folderStatement) add(ctx context.Context, day filedDay) error {
	if err := s.mark(ctx, day); err != nil {
		return err
	}
	s.Statement.Hours = append(s.Statement.Hours, day.sorted()...)
	models, err := s.models(ctx, day)
	if err != nil {
		return err
	}
	for _, t := range []table.Table{table.Charges, table.Corrections} {
		if err := s.charge(ctx, t, day, models); err != nil {
			return err
		}
	}
	if err := s.charges.check(); err != nil || !s.Checks {
		return err
	}
	if err := s.unknown(ctx, day); err != nil {
		return err
	}
	return s.uncounted(ctx, day)
}

func (s *folderStatement) mark(ctx context.Context, day filedDay) (err error) {
	m := table.ClusterMonth{Cluster: day.Cluster, Month: table.Month(day.Date)}
	if s.summed[m] == nil {
		if s.summed[m], err = s.folder.summed(ctx, m); err != nil {
			return err
		}
	}
	for _, h := range day.hours {
		h.mark(s.summed[m])
	}
	return nil
}

func (s *folderStatement) models(ctx context.Context, day filedDay) (*table.Models, error) {
	models := new(table.Models)
	if !slices.Contains(s.By, modelColumn) {
		return models, nil
	}
	err := s.reader.Read(ctx, day.Of(table.GPUHours), []string{hourColumn, "node", "uuid", modelColumn}, func(row []table.Cell) {
		models.Add(row[0].Int, row[1].Text, row[2].Text, row[3].Text)
	})
	return models, err
}

// charge adds the charges or corrections of a day. After a crash, a correction may have a later revision than its hour.
// charge ignores such corrections.
func (s *folderStatement) charge(ctx context.Context, t table.Table, day filedDay, models *table.Models) error {
	matches := s.filter(s.columns)
	read := s.columns
	if t.Name == table.Corrections.Name {
		read = append(slices.Clone(s.columns), "revision")
	}
	var c table.Charge // declared here to avoid an allocation for each row
	return s.reader.Read(ctx, day.Of(t), read, func(row []table.Cell) {
		hour := day.hours[row[0].Int]
		if hour == nil || hour.State == table.Pruned || len(read) > len(s.columns) && row[len(s.columns)].Int > hour.revision || !matches(row) {
			return
		}
		c = table.Charge{}
		for i := range s.fields {
			s.fields[i].SetCell(&c, row[i])
		}
		c.Cluster, c.Model = day.Cluster, models.Of(row[0].Int, c.Node, c.UUID)
		s.charges.add(&c)
	})
}

func (s *folderStatement) unknown(ctx context.Context, day filedDay) error {
	if !slices.ContainsFunc(slices.Collect(maps.Values(day.hours)), func(h *filedHour) bool { return h.unknownPods }) {
		return nil
	}
	type key struct {
		hour int64
		table.PodID
	}
	known, energy := make(map[key]bool), make(map[key]int64)
	err := s.reader.Read(ctx, day.Of(table.Pods), []string{"hour", "namespace", "pod", "pod_uid"}, func(row []table.Cell) {
		known[key{row[0].Int, table.PodID{UID: row[3].Text}}] = true
		known[key{row[0].Int, table.PodID{Namespace: row[1].Text, Pod: row[2].Text}}] = true
	})
	if err != nil {
		return err
	}
	err = s.reader.Read(ctx, day.Of(table.Charges), []string{"hour", "namespace", "pod", "pod_uid", "energy_mj"}, func(row []table.Cell) {
		hour, id := day.hours[row[0].Int], table.PodID{Namespace: row[1].Text, Pod: row[2].Text, UID: row[3].Text}
		if hour != nil && hour.unknownPods && id.UID != "" && !known[key{row[0].Int, table.PodID{UID: id.UID}}] && !known[key{row[0].Int, table.PodID{Namespace: id.Namespace, Pod: id.Pod}}] {
			energy[key{row[0].Int, id}] += row[4].Int
		}
	})
	for k, n := range energy {
		s.pods.add(day.Cluster, k.PodID, n)
	}
	return err
}

// uncounted adds the uncounted energy of the boards on a day. For an audit, it also records which hours have rows in
// gpu_hours.
func (s *folderStatement) uncounted(ctx context.Context, day filedDay) error {
	columns := []string{hourColumn, "node", "uuid", "serial", "uncounted_mj"}
	matches := s.filter(columns)
	last := int64(0)
	return s.reader.Read(ctx, day.Of(table.GPUHours), columns, func(row []table.Cell) {
		if s.audit != nil && row[0].Int != last {
			last = row[0].Int
			s.audit.find(day.Cluster, row[0].Time())
		}
		if day.hours[row[0].Int] != nil && matches(row) {
			s.bounds.add(Uncounted{day.Cluster, row[1].Text, row[2].Text, row[3].Text, row[4].Int})
		}
	})
}
