package books

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// folder has the books in files of the archive, in a folder or a bucket.
type folder struct {
	path   string
	reader *files.Reader
	known  map[clusterMonth]map[int64]bool // hours in sums
}

// OpenFolder opens the files of an archive.
func OpenFolder(ctx context.Context, path string) (Source, error) {
	reader, err := files.OpenReader(ctx, path)
	if err != nil {
		return nil, err
	}
	return &folder{path, reader, make(map[clusterMonth]map[int64]bool)}, nil
}

// OpenBucket opens the files of an archive in an S3-compatible store.
func OpenBucket(ctx context.Context, c files.S3) (Source, error) {
	reader, err := files.OpenBucket(ctx, c, "--books")
	if err != nil {
		return nil, err
	}
	return &folder{c.URL, reader, make(map[clusterMonth]map[int64]bool)}, nil
}

func (f *folder) Name() string { return f.path }

func (f *folder) Close() error { return nil }

const dayLength = 24 * time.Hour

// days calls each for every day of a selection with its filed hours, until it returns false.
func (f *folder) days(ctx context.Context, of Selection, each func(files.Day, map[int64]filedHour) (bool, error)) error {
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
		hours, err := f.hours(ctx, day, of)
		if err != nil {
			return err
		}
		if more, err := each(day, hours); err != nil || !more {
			return err
		}
	}
	return nil
}

type filedHour struct {
	Hour
	revision int64
}

// hours returns the filed hours of a day by their time in milliseconds.
func (f *folder) hours(ctx context.Context, day files.Day, of Selection) (map[int64]filedHour, error) {
	all := make(map[int64]filedHour)
	summed, err := f.summed(ctx, day.Cluster, table.Month(day.Date))
	if err != nil {
		return nil, err
	}
	err = f.reader.Read(ctx, table.Hours, day, []string{"hour", "state", "revision", "energy_mj", "gpus", "reason"}, func(row []table.Cell) {
		if hour := row[0].Time(); !hour.Before(of.From) && hour.Before(of.Until) {
			h := Hour{Cluster: day.Cluster, Hour: hour, State: table.State(row[1].Text), Energy: row[3].Int, GPUs: row[4].Int, Reason: row[5].Text}
			h.mark(summed)
			all[row[0].Int] = filedHour{h, row[2].Int}
		}
	})
	return all, err
}

// Hours implements [Source].
func (f *folder) Hours(ctx context.Context, of Selection, each func(Hour) bool) error {
	return f.days(ctx, of, func(_ files.Day, hours map[int64]filedHour) (bool, error) {
		for _, at := range slices.Sorted(maps.Keys(hours)) {
			if !each(hours[at].Hour) {
				return false, nil
			}
		}
		return true, nil
	})
}

// GPUs implements [Source].
func (f *folder) GPUs(ctx context.Context, of Selection, each func(table.GPU)) error {
	fields := of.gpuFields()
	columns := namesOf(fields)
	var sameDay []table.GPU // of all clusters
	var date time.Time
	flush := func() {
		slices.SortStableFunc(sameDay, compareGPUs)
		for _, g := range sameDay {
			each(g)
		}
		sameDay = sameDay[:0]
	}
	err := f.days(ctx, of, func(day files.Day, hours map[int64]filedHour) (bool, error) {
		if !day.Date.Equal(date) {
			flush()
			date = day.Date
		}
		matches := of.filter(columns)
		return true, f.reader.Read(ctx, table.GPUHours, day, columns, func(row []table.Cell) {
			if _, filed := hours[row[slices.Index(columns, hourColumn)].Int]; filed && matches(row) {
				sameDay = append(sameDay, scan(fields, row))
			}
		})
	})
	flush()
	return err
}

// compareGPUs orders GPUs by hour, then by the first scrape in it.
func compareGPUs(a, b table.GPU) int {
	return cmp.Or(a.Hour.Compare(b.Hour), a.First.Compare(b.First))
}

// Charges implements [Source].
func (f *folder) Charges(ctx context.Context, of Selection, by ...string) ([]table.Charge, error) {
	all := newSums(of, by)
	columns := chargeColumns(of, all.by)
	err := f.days(ctx, of, func(day files.Day, hours map[int64]filedHour) (bool, error) {
		models := make(map[string]string)
		if slices.Contains(by, modelColumn) {
			err := f.reader.Read(ctx, table.GPUHours, day, []string{"uuid", "model"}, func(row []table.Cell) {
				if row[1].Text != "" {
					models[row[0].Text] = row[1].Text
				}
			})
			if err != nil {
				return false, err
			}
		}
		for _, t := range []table.Table{table.Charges, table.Corrections} {
			if err := f.charges(ctx, t, day, hours, of, columns, models, all); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	if err == nil {
		err = f.sums(ctx, of, by, all)
	}
	return all.sorted(), err
}

// charges adds the charges or corrections of a day. Corrections of a later revision than that of the
// hour are left from a crash.
func (f *folder) charges(ctx context.Context, t table.Table, day files.Day, hours map[int64]filedHour, of Selection, columns []string, models map[string]string, to *sums) error {
	matches := of.filter(columns)
	read := columns
	if t.Name == table.Corrections.Name {
		read = append(slices.Clone(columns), "revision")
	}
	fields := chargeFields(columns)
	var c table.Charge // outside of the function, which would allocate it for each row
	return f.reader.Read(ctx, t, day, read, func(row []table.Cell) {
		hour, filed := hours[row[0].Int]
		if !filed || hour.State == table.Pruned || len(read) > len(columns) && row[len(columns)].Int > hour.revision || !matches(row) {
			return
		}
		c = table.Charge{}
		for i := range fields {
			fields[i].SetCell(&c, row[i])
		}
		c.Cluster, c.Model = day.Cluster, models[c.UUID]
		to.add(&c)
	})
}

// Boards implements [Source].
func (f *folder) Boards(ctx context.Context, of Selection) (found []Board, err error) {
	columns := []string{"hour", "node", "uuid", "serial", "chassis_serial", "chassis_slot", "pci_bus_id", "scrapes"}
	all := make(map[Board]*int) // hours
	err = f.days(ctx, of, func(day files.Day, hours map[int64]filedHour) (bool, error) {
		matches := of.filter(columns)
		var last Board
		var count *int
		return true, f.reader.Read(ctx, table.GPUHours, day, columns, func(row []table.Cell) {
			b := Board{day.Cluster, row[1].Text, row[2].Text, row[3].Text, row[4].Text, row[5].Text, row[6].Text, 0}
			if of.Named != "" && b.Is(of.Named) == nil {
				return
			}
			if _, filed := hours[row[0].Int]; !filed || !matches(row) {
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

// chargeColumns are the columns of charges that are read: the hour, those of a selection and of sums,
// and the amounts.
func chargeColumns(of Selection, by []string) []string {
	columns := []string{hourColumn}
	for name := range of.Where {
		columns = append(columns, name)
	}
	columns = append(columns, by...)
	if slices.Contains(by, modelColumn) {
		columns = append(columns, "uuid")
	}
	slices.Sort(columns[1:])
	columns = slices.Compact(columns)
	columns = slices.DeleteFunc(columns, func(name string) bool { return name == modelColumn || name == "cluster" })
	return append(columns, namesOf(table.Amounts)...)
}

// matches reports whether the value of a column is selected.
func (s Selection) matches(column, value string) bool {
	allowed, ok := s.Where[column]
	return !ok || slices.Contains(allowed, value)
}

// filter returns a function that reports whether a row is selected.
func (s Selection) filter(columns []string) func(row []table.Cell) bool {
	type condition struct {
		place   int
		allowed map[string]bool
	}
	var all []condition
	for name, values := range s.Where {
		if name == "cluster" {
			continue // by the path of the file
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

// Refused implements [Source].
func (f *folder) Refused() []Refusal { return nil }

// UnknownPods implements [Source].
func (f *folder) UnknownPods(ctx context.Context, of Selection) ([]UnknownPod, error) {
	all := make(unknownPods)
	err := f.days(ctx, of, func(day files.Day, filed map[int64]filedHour) (bool, error) {
		hours := make(map[int64]bool)
		err := f.reader.Read(ctx, table.Hours, day, []string{"hour", "unknown_pods"}, func(row []table.Cell) {
			if _, ok := filed[row[0].Int]; ok && row[1].Int > 0 {
				hours[row[0].Int] = true
			}
		})
		if err != nil || len(hours) == 0 {
			return true, err
		}
		type key struct {
			hour int64
			table.PodID
		}
		known, energy := make(map[key]bool), make(map[key]int64)
		err = f.reader.Read(ctx, table.Pods, day, []string{"hour", "namespace", "pod", "pod_uid"}, func(row []table.Cell) {
			known[key{row[0].Int, table.PodID{UID: row[3].Text}}] = true
			known[key{row[0].Int, table.PodID{Namespace: row[1].Text, Pod: row[2].Text}}] = true
		})
		if err != nil {
			return false, err
		}
		err = f.reader.Read(ctx, table.Charges, day, []string{"hour", "namespace", "pod", "pod_uid", "energy_mj"}, func(row []table.Cell) {
			id := table.PodID{Namespace: row[1].Text, Pod: row[2].Text, UID: row[3].Text}
			if hours[row[0].Int] && id.UID != "" && !known[key{row[0].Int, table.PodID{UID: id.UID}}] && !known[key{row[0].Int, table.PodID{Namespace: id.Namespace, Pod: id.Pod}}] {
				energy[key{row[0].Int, id}] += row[4].Int
			}
		})
		for k, n := range energy {
			all.add(day.Cluster, k.PodID, n)
		}
		return true, err
	})
	return all.sorted(), err
}
