package books

import (
	"context"
	"slices"
	"strings"
	"time"

	sqldb "github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Summing is a source that can add up the errors of GPUs over a period.
type Summing interface {
	// Errors returns the sum of each GPU's errors, by UUID. It adds them as [table.GPU.AddErrors] does.
	Errors(ctx context.Context, of Query) (map[string]table.GPU, error)
	Faults(ctx context.Context, of Query) (*Faults, error)
}

// Faults is the result of [Summing.Faults].
type Faults struct {
	// Places contains every place in which a GPU had a fault. It may also contain places without a fault.
	Places []Fault
	// Recorded contains the UUIDs of GPUs with error counts or a recovery action in at least one hour.
	Recorded map[string]bool
}

// Fault describes the faults of a GPU while it was in one place.
type Fault struct {
	// Place contains the UUID of the GPU, its node, its chassis slot and its PCI address.
	Place table.GPU
	// Action is set if the driver required an action in at least one hour.
	Action bool
	// Uncorrectable is set if an hour contains uncorrectable memory errors, or if the lifetime number of these errors
	// rose.
	Uncorrectable bool
}

var faultPlace = []string{"uuid", "cluster", "node", "system_uuid", "chassis_serial", "chassis_slot", "pci_bus_id"}

// possibleFault also selects hours after a fault, because the lifetime number of errors stays above 0.
const (
	recordedFaults = "(recovery_action <> '' or dram_uncorrectable is not null or sram_uncorrectable is not null or lifetime_uncorrectable is not null)"
	possibleFault  = "(recovery_action not in ('', 'none') or dram_uncorrectable > 0 or sram_uncorrectable > 0 or lifetime_uncorrectable > 0)"
)

const faultSums = ", max(case when recovery_action not in ('', 'none') then 1 else 0 end)" +
	", max(case when dram_uncorrectable > 0 or sram_uncorrectable > 0 then 1 else 0 end)" +
	", max(lifetime_uncorrectable) - min(lifetime_uncorrectable)"

// eachUUID is an SQL expression for the UUID that uses no index. If a query grouped by the column uuid itself, SQLite
// would use its index and read the rows in random order. Reading the table once from start to end is several times
// faster.
const eachUUID = "coalesce(uuid, '')"

// maxValues is the maximum number of values in an SQL list.
const maxValues = 500

// Faults implements [Summing]. It groups only the rows of GPUs with faults, because few GPUs have faults.
func (d *database) Faults(ctx context.Context, of Query) (*Faults, error) {
	found := &Faults{Recorded: make(map[string]bool)}
	if d.lacks(table.GPUHours, "recovery_action") {
		return found, nil // this database is from an earlier version, without error columns
	}
	recorded, err := d.uuids(ctx, of, recordedFaults)
	if err != nil {
		return nil, err
	}
	for _, uuid := range recorded {
		found.Recorded[uuid] = true
	}
	possible, err := d.uuids(ctx, of, possibleFault)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(possible, maxValues) {
		if err := d.faults(ctx, of, some, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (d *database) uuids(ctx context.Context, of Query, condition string) (all []string, err error) {
	s := sqldb.SQL("select distinct " + eachUUID + " from {gpu_hours}").Join(of.where()).Add(" and " + condition)
	err = d.rows(ctx, s, make([]table.Column, 1), func(row []table.Cell) error {
		all = append(all, row[0].Text)
		return nil
	})
	return all, err
}

func (d *database) faults(ctx context.Context, of Query, uuids []string, to *Faults) error {
	place := fieldsOf(table.GPUField, faultPlace)
	names := strings.Join(faultPlace, ", ")
	columns := columnsOf(table.GPUHours, faultPlace)
	for range 3 {
		columns = append(columns, table.Column{Type: table.OptionalInt})
	}
	s := sqldb.SQL("select "+names+faultSums+" from {gpu_hours}").Join(of.where()).Add(" and uuid in (?) group by "+names, uuids)
	return d.rows(ctx, s, columns, func(row []table.Cell) error {
		sums := row[len(place):]
		to.Places = append(to.Places, Fault{scan(place, row[:len(place)]), sums[0].Int > 0, sums[1].Int > 0 || sums[2].Int > 0})
		return nil
	})
}

// Errors implements [Summing].
func (d *database) Errors(ctx context.Context, of Query) (map[string]table.GPU, error) {
	var fields []table.Field[table.GPU]
	s := sqldb.SQL("select " + eachUUID)
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
	columns := columnsOf(table.GPUHours, append([]string{"uuid"}, namesOf(fields)...))
	acts := !d.lacks(table.GPUHours, "recovery_action")
	if acts {
		s.Add(", max(case when recovery_action <> '' then hour end)")
		columns = append(columns, table.Column{Type: table.Time})
	}
	all, acted := make(map[string]table.GPU), make(map[time.Time][]string) // acted contains the GPUs by the last hour in which the driver required an action
	s.Add(" from {gpu_hours}").Join(of.where()).Add(" group by " + eachUUID)
	err := d.rows(ctx, s, columns, func(row []table.Cell) error {
		all[row[0].Text] = scan(fields, row[1:])
		if last := row[len(row)-1]; acts && last.Int != 0 {
			acted[last.Time()] = append(acted[last.Time()], row[0].Text)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for hour, uuids := range acted {
		for some := range slices.Chunk(uuids, maxValues) {
			if err := d.actions(ctx, of, hour, some, all); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (d *database) actions(ctx context.Context, of Query, hour time.Time, uuids []string, to map[string]table.GPU) error {
	s := sqldb.SQL("select uuid, recovery_action from {gpu_hours} where hour = ?", hour).Join(of.names()).Add(" and uuid in (?) and recovery_action <> ''", uuids)
	return d.rows(ctx, s, make([]table.Column, 2), func(row []table.Cell) error {
		g := to[row[0].Text]
		g.RecoveryAction = row[1].Text
		to[row[0].Text] = g
		return nil
	})
}
