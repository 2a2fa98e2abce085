package ask

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// A board that fails for several causes is counted once in the column FAILED.
var failureColumns = columns[groupedFailures]{
	{"line", "BY", print.Text, func(f groupedFailures) any { return f.line }},
	{"model", "MODEL", print.Text, groupedFailures.title},
	{"chassis_slot", "SLOT", print.Text, func(f groupedFailures) any { return f.slot }},
	{"age_months", "AGE IN MONTHS", print.Count, groupedFailures.age},
	{"boards", "BOARDS", print.Count, func(f groupedFailures) any { return f.boards("") }},
	{"failed", "FAILED", print.Count, func(f groupedFailures) any { return int64(len(f.failed())) }},
	{"failed_share", "RATE", print.Share, func(f groupedFailures) any { return share(int64(len(f.failed())), f.boards("")) }},
	{"lost", "LOST", print.Count, func(f groupedFailures) any { return f.boards(lost) }},
	{"replaced", "REPLACED", print.Count, func(f groupedFailures) any { return f.boards(replaced) }},
	{"action_required", "ACTION", print.Count, func(f groupedFailures) any { return f.boards(required) }},
	{"uncorrectable", "UNCORRECTABLE", print.Count, func(f groupedFailures) any { return f.boards(grown) }},
}

// Rows are sorted in this order.
var failureLines = []string{"model", "slot", "age", "total"}

// These are the causes of failures. The constants lost and replaced are further causes.
const required, grown = "action required", "uncorrectable"

// failureGroup identifies boards with the same model, slot or age. line determines which of the other fields are set.
type failureGroup struct {
	line, model, slot string
	months            int
}

// failing contains the failed boards of a group, by cause. The key "" contains all boards of the group, with and
// without failures.
type failing map[string]map[string]bool

type groupedFailures struct {
	failureGroup
	failing
}

func (f groupedFailures) title() any {
	if f.line == "total" {
		return "TOTAL"
	}
	return f.model
}

func (f groupedFailures) age() any {
	if f.line != "age" {
		return nil
	}
	return int64(f.months)
}

func (f failing) boards(cause string) int64 { return int64(len(f[cause])) }

func (f failing) failed() map[string]bool {
	all := make(map[string]bool)
	for cause, boards := range f {
		if cause != "" {
			maps.Copy(all, boards)
		}
	}
	return all
}

func (q *question) failures(ctx context.Context) (print.Answer, error) {
	of, notices := q.period(), []string(nil)
	if !q.Month.IsZero() {
		of, notices = q.billed()
	}
	of.Until = of.Until.Truncate(time.Hour)
	life := of
	life.Places = true
	if q.Books != "" {
		life.From = time.Unix(0, 0).UTC() // ages begin at the first hour of the archive
	}
	all, err := stays(ctx, q.source, life)
	if err != nil {
		return print.Answer{}, err
	}
	faults, err := q.faults(ctx, of)
	if err != nil {
		return print.Answer{}, err
	}
	begin, unknown, invalid := q.begins(all)
	all = slices.DeleteFunc(all, func(s *Stay) bool { return !s.within(of.From) })
	a := failureColumns.answer(sortedFailures(groupFailures(all, faults.places, begin))...)
	a.Notices = notices
	if n := unrecorded(all, faults.recorded, of.From); n > 0 {
		a.Notices = append(a.Notices, fmt.Sprintf("GPUs without error counts in this time, because the GPU or its exporter reported no counts: %d", n))
	}
	a.Notices = append(a.Notices, ageNotices(unknown, invalid)...)
	return a, nil
}

func (s *Stay) within(from time.Time) bool {
	return !s.LastHour.Before(from) || (s.End == lost || s.End == replaced) && !s.MissingSince.Before(from)
}

type recordedFaults struct {
	places   map[string][]books.Fault
	recorded map[string]bool
}

func (q *question) faults(ctx context.Context, of books.Query) (*recordedFaults, error) {
	all := &recordedFaults{make(map[string][]books.Fault), make(map[string]bool)}
	if s, ok := q.source.Source.(books.Summing); ok {
		found, err := s.Faults(ctx, of)
		if err != nil {
			return nil, err
		}
		for _, f := range found.Places {
			all.places[f.Place.UUID] = append(all.places[f.Place.UUID], f)
		}
		all.recorded = found.Recorded
		return all, nil
	}
	for row, err := range q.source.Rows(ctx, of) {
		if err != nil {
			return nil, err
		}
		g := &row.GPU
		i := slices.IndexFunc(all.places[g.UUID], func(f books.Fault) bool { return !moved(f.Place, *g) })
		if i < 0 {
			i = len(all.places[g.UUID])
			all.places[g.UUID] = append(all.places[g.UUID], books.Fault{Place: *g})
		}
		addFault(&all.places[g.UUID][i], g)
		if g.RecoveryAction != "" || g.DRAMUncorrectable != nil || g.SRAMUncorrectable != nil || g.LifetimeUncorrectable != nil {
			all.recorded[g.UUID] = true
		}
	}
	return all, nil
}

// addFault adds one row of a GPU. f.Place contains the lowest lifetime number of errors so far.
func addFault(f *books.Fault, g *table.GPU) {
	lowest, now := &f.Place.LifetimeUncorrectable, g.LifetimeUncorrectable
	grown := *lowest != nil && now != nil && *now > **lowest
	f.Action = f.Action || !slices.Contains([]string{"", "none"}, g.RecoveryAction)
	f.Uncorrectable = f.Uncorrectable || grown || positive(plus(g.DRAMUncorrectable, g.SRAMUncorrectable))
	if now != nil && !grown {
		*lowest = now
	}
}

func unrecorded(all []*Stay, recorded map[string]bool, from time.Time) int {
	gpus := make(map[string]bool)
	for _, s := range all {
		if !s.LastHour.Before(from) && !recorded[s.UUID] {
			gpus[s.UUID] = true
		}
	}
	return len(gpus)
}

// groupFailures counts a board in each of its slots. It counts a failure only in the slot in which the board failed.
// The age of a board is its age in its last hour.
func groupFailures(all []*Stay, faults map[string][]books.Fault, begin map[string]time.Time) map[failureGroup]failing {
	last := make(map[string]time.Time)
	for _, s := range all {
		last[boardOf(s)] = later(last[boardOf(s)], s.LastHour)
	}
	groups := make(map[failureGroup]failing)
	for _, s := range all {
		board := boardOf(s)
		months := monthsBetween(begin[board], last[board])
		causes := append(causesOf(s, faults[s.UUID]), "")
		for _, key := range []failureGroup{
			{line: "model", model: s.Model},
			{line: "slot", model: s.Model, slot: s.ChassisSlot},
			{line: "age", model: s.Model, months: months - months%ageStep},
			{line: "total"},
		} {
			if groups[key] == nil {
				groups[key] = make(failing)
			}
			groups[key].add(board, causes)
		}
	}
	return groups
}

func (f failing) add(board string, causes []string) {
	for _, cause := range causes {
		if f[cause] == nil {
			f[cause] = make(map[string]bool)
		}
		f[cause][board] = true
	}
}

func causesOf(s *Stay, faults []books.Fault) (causes []string) {
	if s.End == lost || s.End == replaced {
		causes = append(causes, s.End)
	}
	for _, f := range faults {
		if moved(s.GPU, f.Place) {
			continue
		}
		if f.Action {
			causes = append(causes, required)
		}
		if f.Uncorrectable {
			causes = append(causes, grown)
		}
	}
	return causes
}

func sortedFailures(groups map[failureGroup]failing) (all []groupedFailures) {
	for key, boards := range groups {
		all = append(all, groupedFailures{key, boards})
	}
	slices.SortFunc(all, func(a, b groupedFailures) int {
		byRate := 0
		if a.line == b.line && a.line != "age" {
			byRate = a.compare(b.failing)
		}
		return cmp.Or(cmp.Compare(slices.Index(failureLines, a.line), slices.Index(failureLines, b.line)), byRate,
			cmp.Compare(a.model, b.model), cmp.Compare(a.slot, b.slot), cmp.Compare(a.months, b.months))
	})
	return all
}

func (f failing) compare(other failing) int {
	failed, others := len(f.failed()), len(other.failed())
	return cmp.Or(cmp.Compare(others*len(f[""]), failed*len(other[""])), cmp.Compare(others, failed))
}
