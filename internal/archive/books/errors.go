package books

import (
	"context"
	"strings"

	sqldb "github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Summing is a source that adds up the errors of GPUs itself.
type Summing interface {
	// Errors returns the errors of each GPU in a period, by UUID, as [table.GPU.AddErrors] adds them up.
	Errors(ctx context.Context, of Query) (map[string]table.GPU, error)
	// Faults returns the faults of each GPU in each of its places in a period.
	Faults(ctx context.Context, of Query) ([]Fault, error)
}

// Fault contains the faults of a GPU in a place.
type Fault struct {
	// Place contains the attributes of the place, and the UUID.
	Place table.GPU
	// Recorded is set if any hour has a record of the errors below.
	Recorded bool
	// Action is set if the driver required an action in any hour.
	Action bool
	// Uncorrectable is set if the uncorrectable memory errors grew: in an hour, or over the life of the board.
	Uncorrectable bool
}

// FaultPlace contains the names of the columns of a place with faults.
var FaultPlace = []string{"uuid", "cluster", "node", "system_uuid", "chassis_serial", "chassis_slot", "pci_bus_id"}

// faultSums are the sums of the fields of [Fault], as numbers.
const faultSums = ", max(case when recovery_action <> '' or dram_uncorrectable is not null or sram_uncorrectable is not null or lifetime_uncorrectable is not null then 1 else 0 end)" +
	", max(case when recovery_action not in ('', 'none') then 1 else 0 end)" +
	", max(case when dram_uncorrectable > 0 or sram_uncorrectable > 0 then 1 else 0 end)" +
	", max(lifetime_uncorrectable) - min(lifetime_uncorrectable)"

// Faults implements [Summing].
func (d *database) Faults(ctx context.Context, of Query) (all []Fault, err error) {
	if d.lacks(table.GPUHours, "recovery_action") {
		return nil, nil // and the other columns of the same version
	}
	var place []table.Field[table.GPU]
	for _, name := range FaultPlace {
		f, _ := table.GPUField(name)
		place = append(place, f)
	}
	names := strings.Join(FaultPlace, ", ")
	columns := columnsOf(table.GPUHours, FaultPlace)
	for range 4 {
		columns = append(columns, table.Column{Type: table.OptionalInt})
	}
	s := sqldb.SQL("select " + names + faultSums + " from {gpu_hours}").Join(of.where()).Add(" group by " + names)
	err = d.rows(ctx, s, columns, func(row []table.Cell) error {
		sums := row[len(place):]
		all = append(all, Fault{scan(place, row[:len(place)]), sums[0].Int > 0, sums[1].Int > 0, sums[2].Int > 0 || sums[3].Int > 0})
		return nil
	})
	return all, err
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
