package books

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	sqldb "github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// span is a part of the period. The database has sums for the days of a daily span. Any other span is read by hour.
type span struct {
	daily       bool
	from, until time.Time
}

// spans divides the period into the whole days, the hours before them and the hours after them. If the table contains
// no daily sums, spans does not divide the period.
func (d *database) spans(ctx context.Context, of Query, days table.Table) ([]span, error) {
	hours := span{false, of.From, of.Until}
	first, end := table.Day(of.From.Add(24*time.Hour-1)), table.Day(of.Until)
	if !first.Before(end) || !of.daily() {
		return []span{hours}, nil
	}
	if filled, err := d.filled(ctx, days); err != nil || !filled {
		return []span{hours}, err
	}
	all := []span{{false, of.From, first}, {true, first, end}, {false, end, of.Until}}
	return slices.DeleteFunc(all, func(s span) bool { return !s.from.Before(s.until) }), nil
}

// filled reports whether a table contains daily sums. A database from an earlier version may lack the table. In MySQL,
// the table is empty until the program has added up the hours of the earlier version.
func (d *database) filled(ctx context.Context, days table.Table) (found bool, err error) {
	if !d.known[days.Name+".day"] {
		return false, nil
	}
	err = d.rows(ctx, sqldb.SQL("select 1 from {"+days.Name+"} limit 1"), []table.Column{{Type: table.Int}}, func([]table.Cell) error {
		found = true
		return nil
	})
	return found, err
}

// chargeSpan is a part of the period of a statement. If several is set, it contains only the charges of days on which the
// GPU has several models.
type chargeSpan struct {
	span
	several bool
}

// chargeSpans divides the period of a statement. Daily sums of charges have no model. So a statement by model reads the
// hours of the GPUs that have several models on a day. It reads daily sums of all other GPUs.
func (d *database) chargeSpans(ctx context.Context, of Query) (all []chargeSpan, err error) {
	parts, err := d.spans(ctx, of, table.Days)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		var hours span // hours of GPUs with several models on a day
		if part.daily && slices.Contains(of.By, modelColumn) {
			if part.daily, err = d.filled(ctx, table.GPUDays); err == nil && part.daily {
				hours, err = d.severalModels(ctx, of, part)
			}
			if err != nil {
				return nil, err
			}
		}
		all = append(all, chargeSpan{part, false})
		if hours.from.Before(hours.until) {
			all = append(all, chargeSpan{hours, true})
		}
	}
	return all, nil
}

// hasSeveral is the SQL condition that a group of rows contains several models.
const hasSeveral = "min(nullif(model, '')) <> max(model)"

// severalModels returns the hours from the first to the last day on which a GPU has several models. It returns no hours
// if there is no such day.
func (d *database) severalModels(ctx context.Context, of Query, days span) (hours span, err error) {
	s := sqldb.SQL("select distinct day from (select day from {gpu_days}").Join(of.ofClusters().condition(days)).
		Add(" group by cluster, day, uuid having " + hasSeveral + ") as days order by day")
	err = d.rows(ctx, s, []table.Column{{Type: table.Date}}, func(row []table.Cell) error {
		if hours.from.IsZero() {
			hours.from = row[0].Time()
		}
		hours.until = row[0].Time().AddDate(0, 0, 1)
		return nil
	})
	return hours, err
}

// modelled returns a from clause for charges with their model, as in [table.Models]. It joins no table of groups, such as
// the models of each GPU and day, because MariaDB compares every charge with every row of such a table.
func (d *database) modelled(s chargeSpan) *sqldb.Statement {
	days := span{true, table.Day(s.from), table.Day(s.until.Add(24*time.Hour - 1))}
	const sameDay = " from {gpu_days} where cluster = charged.cluster and uuid = charged.uuid and day = charged.day"
	ofDay := sqldb.SQL("(select " + d.LastModel() + sameDay + ")")
	if s.daily {
		return sqldb.SQL("(select charged.*, coalesce(").Join(ofDay).Add(", '') as model from {days} as charged").Join(s.where()).
			Add(" and not exists (select 1" + sameDay + " group by uuid having " + hasSeveral + ")) as charged").Join(s.where())
	}
	if !s.several {
		days.daily = false
		ofDay = sqldb.SQL("(select " + d.LastModel() + " from {gpu_hours}").Join(days.where()).
			Add(" and cluster = charged.cluster and uuid = charged.uuid and " + d.DateOfHour() + " = charged.day)")
	}
	from := sqldb.SQL("(select charged.*, coalesce(hour_model, ").Join(ofDay).
		Add(", '') as model from (select charged.*, " + d.DateOfHour() + " as day from {billed} as charged").Join(s.where()).
		Add(") as charged left join (select cluster, hour, node, uuid, nullif(model, '') as hour_model from {gpu_hours}").Join(s.where()).
		Add(") as hour_models using (cluster, hour, node, uuid)")
	if s.several {
		from.Add(" where (charged.cluster, charged.day, charged.uuid) in (select cluster, day, uuid from {gpu_days}").Join(days.where()).
			Add(" group by cluster, day, uuid having " + hasSeveral + ")")
	}
	return from.Add(") as charged").Join(s.where())
}

// daily reports whether all charges of a day belong to the same sums. This is false if the query groups by hour, or if
// one of its parts does not begin at midnight UTC.
func (s Query) daily() bool {
	if !slices.Contains(s.By, hourColumn) {
		return true
	}
	return len(s.Parts) > 0 && !slices.ContainsFunc(s.Parts[1:], func(start time.Time) bool { return !start.Equal(table.Day(start)) })
}

func (s span) table(hours, days string) string {
	if s.daily {
		return days
	}
	return hours
}

func (s span) where() *sqldb.Statement {
	if s.daily {
		return sqldb.SQL(" where day >= ? and day < ?", s.from.Format(time.DateOnly), s.until.Format(time.DateOnly))
	}
	return sqldb.SQL(" where hour >= ? and hour < ?", s.from, s.until)
}

// places reads whole days from daily sums. A row then covers the consecutive hours of a GPU in one place. If a GPU was
// in several clusters during these days, its hours are read, because daily sums do not contain their order.
func (d *database) places(ctx context.Context, of Query, each func(Row) error) error {
	of.By = nil
	parts, err := d.spans(ctx, of, table.GPUDays)
	if err != nil {
		return err
	}
	for _, part := range parts {
		in := of
		in.From, in.Until = part.from, part.until
		if part.daily {
			several, err := d.inSeveral(ctx, of, part)
			if err != nil {
				return err
			}
			if err := d.placesOfDays(ctx, of.condition(part), several, each); err != nil {
				return err
			}
			if len(several) == 0 {
				continue
			}
			in.Where = maps.Clone(of.Where)
			if in.Where == nil {
				in.Where = make(map[string][]string)
			}
			in.Where["uuid"] = several
		}
		if err := d.gpus(ctx, in, each); err != nil {
			return err
		}
	}
	return nil
}

func (d *database) inSeveral(ctx context.Context, of Query, part span) (uuids []string, err error) {
	s := sqldb.SQL("select uuid from {gpu_days}").Join(of.condition(part)).Add(" group by uuid having count(distinct cluster) > 1")
	err = d.rows(ctx, s, columnsOf(table.GPUDays, []string{"uuid"}), func(row []table.Cell) error {
		uuids = append(uuids, row[0].Text)
		return nil
	})
	return uuids, err
}

func (d *database) placesOfDays(ctx context.Context, where *sqldb.Statement, except []string, each func(Row) error) error {
	names := namesOf(table.PlaceFields)
	names[slices.Index(names, hourColumn)] = "first_hour"
	names = append(names, "last_hour")
	s := sqldb.SQL("select " + strings.Join(names, ", ") + " from {gpu_days}").Join(where)
	if len(except) > 0 {
		s.Add(" and uuid not in (?)", except)
	}
	s.Add(" order by first_hour, first_seen")
	return d.rows(ctx, s, columnsOf(table.GPUDays, names), func(row []table.Cell) error {
		last := len(row) - 1
		return each(Row{GPU: scan(table.PlaceFields, row), LastHour: row[last].Time()})
	})
}
