package books

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

type folder struct {
	path   string
	reader *files.Reader
}

// OpenFolder opens an archive in a folder of files.
func OpenFolder(ctx context.Context, path string) (Source, error) {
	reader, err := files.OpenReader(ctx, path)
	if err != nil {
		return nil, err
	}
	return &folder{path, reader}, nil
}

// OpenBucket opens an archive in an S3-compatible store.
func OpenBucket(ctx context.Context, c files.S3) (Source, error) {
	reader, err := files.OpenBucket(ctx, c, "--books")
	if err != nil {
		return nil, err
	}
	return &folder{c.URL, reader}, nil
}

func (f *folder) Name() string { return f.path }

func (f *folder) Close() error { return nil }

const dayLength = 24 * time.Hour

// filedDay contains the hours of one cluster and one day, by time in milliseconds.
type filedDay struct {
	files.Day
	hours map[int64]*filedHour
}

type filedHour struct {
	Hour
	revision    int64
	unknownPods bool
}

func (d filedDay) sorted() (all []Hour) {
	for _, at := range slices.Sorted(maps.Keys(d.hours)) {
		all = append(all, d.hours[at].Hour)
	}
	return all
}

func (f *folder) days(ctx context.Context, of Query, each func(filedDay) error) error {
	days, err := f.reader.Days(ctx)
	if err != nil {
		return err
	}
	for _, day := range days {
		if !of.matches("cluster", day.Cluster) || !day.Date.Add(dayLength).After(of.From) || !day.Date.Before(of.Until) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		d, err := f.day(ctx, day, of)
		if err != nil {
			return err
		}
		if err := each(d); err != nil {
			return err
		}
	}
	return nil
}

func (f *folder) day(ctx context.Context, day files.Day, of Query) (filedDay, error) {
	all := make(map[int64]*filedHour)
	columns := []string{"hour", "state", "revision", "energy_mj", "gpus", "reason", "unknown_pods"}
	err := f.reader.Read(ctx, day.Of(table.Hours), columns, func(row []table.Cell) {
		if hour := row[0].Time(); !hour.Before(of.From) && hour.Before(of.Until) {
			h := Hour{Cluster: day.Cluster, Hour: hour, State: table.State(row[1].Text), Energy: row[3].Int, GPUs: row[4].Int, Reason: row[5].Text}
			all[row[0].Int] = &filedHour{h, row[2].Int, row[6].Int > 0}
		}
	})
	return filedDay{day, all}, err
}

// Hours implements [Source].
func (f *folder) Hours(ctx context.Context, of Query) iter.Seq2[Hour, error] {
	return sequence(func(each func(Hour) error) error {
		return f.days(ctx, of, func(day filedDay) error {
			return callEach(day.sorted(), each)
		})
	})
}

// Boards implements [Source].
func (f *folder) Boards(ctx context.Context, of Query) (found []Board, err error) {
	columns := []string{"hour", "node", "uuid", "serial", "chassis_serial", "chassis_slot", "pci_bus_id", "scrapes"}
	all := make(map[Board]*int) // number of hours
	err = f.days(ctx, of, func(day filedDay) error {
		matches := of.filter(columns)
		var last Board // consecutive rows are often about the same board
		var count *int
		return f.reader.Read(ctx, day.Of(table.GPUHours), columns, func(row []table.Cell) {
			b := Board{day.Cluster, row[1].Text, row[2].Text, row[3].Text, row[4].Text, row[5].Text, row[6].Text, 0}
			if of.Named != "" && b.Is(of.Named) == nil {
				return
			}
			if day.hours[row[0].Int] == nil || !matches(row) {
				return
			}
			if b != last || count == nil {
				if last, count = b, all[b]; count == nil {
					count = new(int)
					all[b] = count
				}
			}
			if row[7].Int > 0 {
				*count++
			}
		})
	})
	for b, hours := range all {
		b.Hours = *hours
		found = append(found, b)
	}
	return found, err
}

// Counted implements [Source].
func (f *folder) Counted(ctx context.Context, of Query) ([]Board, []Hour, error) {
	return counted(ctx, f, of)
}

func (s Query) matches(column, value string) bool {
	allowed, ok := s.Where[column]
	return !ok || slices.Contains(allowed, value)
}

func (s Query) filter(columns []string) func(row []table.Cell) bool {
	type condition struct {
		place   int
		allowed map[string]bool
	}
	var all []condition
	for name, values := range s.Where {
		if name == "cluster" {
			continue // the path of the file contains the column
		}
		c := condition{slices.Index(columns, name), make(map[string]bool)}
		for _, value := range values {
			c.allowed[value] = true
		}
		all = append(all, c)
	}
	return func(row []table.Cell) bool {
		for _, c := range all {
			if !c.allowed[row[c.place].Text] {
				return false
			}
		}
		return true
	}
}
