package books

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	sqldb "github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Auditing is an archive that can read each table once for an audit.
type Auditing interface {
	// Audit returns the data that the command verify checks. Of the query, it uses only the period and the clusters.
	Audit(ctx context.Context, of Query) (*Audit, error)
}

// Audit contains the data that the command verify checks.
type Audit struct {
	// Statement contains the unknown pods, the uncounted energy, and the charged energy by cluster, hour and reason.
	// From a database, all charges without an owner have the same reason, "no owner".
	*Statement
	// Found contains the hours with rows in gpu_hours, by cluster. The manifest may contain further hours.
	Found map[string]map[time.Time]bool
	// WrongDays contains the whole days whose stored sums differ from the sums of their hours, sorted. Statements of
	// long periods read these sums.
	WrongDays []ClusterDay
}

// ClusterDay identifies a day (UTC) of a cluster.
type ClusterDay struct {
	Cluster string
	Day     time.Time
}

func (s Query) audited() Query {
	of := s.ofClusters()
	of.By, of.Sums, of.Checks = []string{"cluster", hourColumn, "reason"}, true, true
	return of
}

func (a *Audit) find(cluster string, hour time.Time) {
	if a.Found[cluster] == nil {
		a.Found[cluster] = make(map[time.Time]bool)
	}
	a.Found[cluster][hour] = true
}

// Audit implements [Auditing].
func (f *folder) Audit(ctx context.Context, of Query) (*Audit, error) {
	s := f.statement(of.audited())
	s.audit = &Audit{Found: make(map[string]map[time.Time]bool)}
	var err error
	s.audit.Statement, err = s.read(ctx)
	return s.audit, err
}

// Audit implements [Auditing].
func (d *database) Audit(ctx context.Context, of Query) (*Audit, error) {
	of = of.audited()
	to := &Audit{Statement: new(Statement), Found: make(map[string]map[time.Time]bool)}
	a := &audit{database: d, of: of, to: to, charges: newSums(of), wrong: make(map[ClusterDay]bool)}
	for _, read := range []func(context.Context) error{a.addCharges, a.addGPUs, a.addChecks} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	to.Charges = a.charges.sorted()
	to.WrongDays = slices.SortedFunc(maps.Keys(a.wrong), func(a, b ClusterDay) int {
		return cmp.Or(a.Day.Compare(b.Day), strings.Compare(a.Cluster, b.Cluster))
	})
	return to, nil
}

type audit struct {
	*database
	of        Query
	to        *Audit
	charges   *sums
	uncounted bool
	wrong     map[ClusterDay]bool
}

const noOwner = "no owner"

// addCharges does not group by reason. SQLite would then sort all rows.
func (a *audit) addCharges(ctx context.Context) error {
	names := namesOf(table.Amounts)
	energy := slices.Index(names, "energy_mj")
	err := a.compare(ctx, table.Days, names, "sum(case when reason <> '' then energy_mj else 0 end)", func(h Hour, unowned int64, sums []table.Cell) {
		for reason, energy := range map[string]int64{"": sums[energy].Int - unowned, noOwner: unowned} {
			a.charges.add(&table.Charge{Cluster: h.Cluster, Hour: h.Hour, Reason: reason, Energy: energy})
		}
	})
	if err != nil {
		return err
	}
	return a.sums(ctx, a.of, a.charges)
}

func (a *audit) addGPUs(ctx context.Context) error {
	uncounted := "0"
	if !a.lacks(table.GPUHours, "uncounted_mj") {
		uncounted = "max(uncounted_mj)"
	}
	return a.compare(ctx, table.GPUDays, []string{"energy_mj", "scrapes"}, uncounted, func(h Hour, uncounted int64, _ []table.Cell) {
		a.to.find(h.Cluster, h.Hour)
		a.uncounted = a.uncounted || uncounted > 0
	})
}

// compare compares the stored sums of days with the sums of their hours. It reads the hours in the order of the primary
// key. For every hour, it calls the function each with the value of the expression and with the sums of the hour.
func (a *audit) compare(ctx context.Context, days table.Table, names []string, expression string, each func(h Hour, value int64, sums []table.Cell)) error {
	differences, err := a.sumsOfDays(ctx, days, names)
	if err != nil {
		return err
	}
	for _, of := range days.From() {
		columns := columnsOf(of, append([]string{"cluster", hourColumn, "energy_mj"}, names...))
		s := sqldb.SQL("select cluster, hour, " + expression)
		for _, c := range columns[3:] {
			s.Add(", " + a.sum(of, c))
		}
		s.Add(" from {" + of.Name + "}").Join(a.of.where()).Add(" group by cluster, hour")
		err := a.rows(ctx, s, columns, func(row []table.Cell) error {
			differences.add(row[0].Text, row[1].Time(), row[3:], -1)
			each(Hour{Cluster: row[0].Text, Hour: row[1].Time()}, row[2].Int, row[3:])
			return nil
		})
		if err != nil {
			return err
		}
	}
	differences.addTo(a.wrong)
	return nil
}

func (a *audit) addChecks(ctx context.Context) (err error) {
	if a.to.Hours, err = a.markedHours(ctx, a.of); err != nil {
		return err
	}
	if a.to.UnknownPods, err = a.unknownPods(ctx, a.of); err != nil || !a.uncounted {
		a.to.Bounded = !a.lacks(table.GPUHours, "uncounted_mj")
		return err
	}
	a.to.Uncounted, a.to.Bounded, err = a.database.uncounted(ctx, a.of)
	return err
}

func (a *audit) sumsOfDays(ctx context.Context, days table.Table, names []string) (*dayDifferences, error) {
	of := a.of.ofClusters()
	parts, err := a.spans(ctx, of, days)
	if err != nil {
		return nil, err
	}
	all := &dayDifferences{sums: make(map[ClusterDay][]int64)}
	for _, part := range parts {
		if !part.daily {
			continue
		}
		all.from, all.until = part.from, part.until
		s := sqldb.SQL("select cluster, day")
		columns := columnsOf(days, append([]string{"cluster", "day"}, names...))
		for _, c := range columns[2:] {
			s.Add(", " + a.sum(days, c))
		}
		s.Add(" from {" + days.Name + "}").Join(of.condition(part)).Add(" group by cluster, day")
		err := a.rows(ctx, s, columns, func(row []table.Cell) error {
			all.add(row[0].Text, row[1].Time(), row[2:], 1)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// sums contains the stored sums of each whole day minus the sums of its hours.
type dayDifferences struct {
	from, until time.Time
	sums        map[ClusterDay][]int64
}

// add multiplies amounts by factor, and adds the products to the sums of the day. It ignores days outside the period.
func (d *dayDifferences) add(cluster string, at time.Time, amounts []table.Cell, factor int64) {
	if at.Before(d.from) || !at.Before(d.until) {
		return
	}
	day := ClusterDay{cluster, table.Day(at)}
	if d.sums[day] == nil {
		d.sums[day] = make([]int64, len(amounts))
	}
	for i, cell := range amounts {
		d.sums[day][i] += factor * cell.Int
	}
}

func (d *dayDifferences) addTo(wrong map[ClusterDay]bool) {
	for day, sums := range d.sums {
		if slices.ContainsFunc(sums, func(n int64) bool { return n != 0 }) {
			wrong[day] = true
		}
	}
}
