package books

import (
	"context"

	sqldb "github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Summing is a source that adds up the errors of GPUs itself.
type Summing interface {
	// Errors returns the errors of each GPU in a period, by UUID, as [table.GPU.AddErrors] adds them up.
	Errors(ctx context.Context, of Query) (map[string]table.GPU, error)
}

// Errors implements [Summing].
func (d *database) Errors(ctx context.Context, of Query) (map[string]table.GPU, error) {
	var fields []table.Field[table.GPU]
	s := sqldb.SQL("select uuid")
	for _, f := range table.ErrorFields {
		if f.Type != table.OptionalInt || d.lacks(table.GPUHours, f.Name) {
			continue
		}
		fields = append(fields, f)
		if table.IsLevel(f.Name) {
			s.Add(", max(" + f.Name + ")")
		} else {
			s.Add(", sum(" + f.Name + ")")
		}
	}
	all := make(map[string]table.GPU)
	s.Add(" from {gpu_hours}").Join(of.where()).Add(" group by uuid")
	err := d.rows(ctx, s, columnsOf(table.GPUHours, append([]string{"uuid"}, namesOf(fields)...)), func(row []table.Cell) error {
		all[row[0].Text] = scan(fields, row[1:])
		return nil
	})
	if err != nil || d.lacks(table.GPUHours, "recovery_action") {
		return all, err
	}
	known := func() *sqldb.Statement {
		return sqldb.SQL(" from {gpu_hours}").Join(of.where()).Add(" and recovery_action <> ''")
	}
	s = sqldb.SQL("select uuid, recovery_action").Join(known()).Add(" and (uuid, hour) in (select uuid, max(hour)").Join(known()).Add(" group by uuid)")
	err = d.rows(ctx, s, make([]table.Column, 2), func(row []table.Cell) error {
		g := all[row[0].Text]
		g.RecoveryAction = row[1].Text
		all[row[0].Text] = g
		return nil
	})
	return all, err
}
