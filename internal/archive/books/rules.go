package books

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Unattributed is the reason of energy that was charged to no pod or unit, if the source contains no more detailed
// reason.
const Unattributed = "unattributed"

// Up to this number of GPU hours, samples are read even if the store contains results of rules.
const maxSampleHours = 10_000

// family is a group of recording rules with the same labels. columns contains the names of the columns with the values
// of these labels.
type family struct {
	name    string
	columns []string
}

// families contains the groups of rules for pods, or the groups of rules for units. The group with the fewest series is
// first.
type families struct {
	all []family
	// foreign contains columns that are always empty for these pods or units.
	foreign []string
}

var (
	podFamilies = families{[]family{
		{"namespace", []string{"cluster", "namespace", modelColumn}},
		{"workload", []string{"cluster", "namespace", "workload_kind", "workload_name", "workload_uid", "team", modelColumn}},
		{"allocation", []string{"cluster", "uuid", "serial", "namespace", "pod", "pod_uid"}},
	}, []string{"manager", "unit", "username"}}
	unitFamilies = families{[]family{
		{"user", []string{"cluster", "manager", "team", "username", modelColumn}},
		{"unit_allocation", []string{"cluster", "node", "uuid", "serial", "manager", "unit"}},
	}, []string{"namespace", "pod", "pod_uid", "workload_kind", "workload_name", "workload_uid"}}
)

const exclusive = "exclusive_energy_joules"

// ruled contains the values that rules record. name is a part of the rule's name. The function in the field "of"
// returns a pointer to this value in a charge, in mJ or ms.
var ruled = []struct {
	name string
	of   func(*table.Charge) *int64
}{
	{"energy_joules", func(c *table.Charge) *int64 { return &c.Energy }},
	{exclusive, func(c *table.Charge) *int64 { return &c.Exclusive }},
	{"idle_energy_joules", func(c *table.Charge) *int64 { return &c.Idle }},
	{"gpu_seconds", func(c *table.Charge) *int64 { return &c.GPUTime }},
	{"active_seconds", func(c *table.Charge) *int64 { return &c.Active }},
}

// The result is the first family that records all columns of a query.
func (f families) with(of Query) (family, bool) {
	needed := slices.DeleteFunc(slices.Concat(of.By, sortedNames(of.Where)), func(name string) bool {
		return name == hourColumn || name == "reason" || slices.Contains(f.foreign, name)
	})
	i := slices.IndexFunc(f.all, func(f family) bool {
		return !slices.ContainsFunc(needed, func(name string) bool { return !slices.Contains(f.columns, name) })
	})
	if i < 0 {
		return family{}, false
	}
	return f.all[i], true
}

func familiesFor(of Query) (pods, units family, found bool) {
	pods, ofPods := podFamilies.with(of)
	units, ofUnits := unitFamilies.with(of)
	return pods, units, ofPods && ofUnits
}

// rules reads charges from the results of recording rules. It reads rows of GPUs from samples, because rules do not
// record them.
type rules struct{ *samples }

// suit reports whether a statement should be read from rules. Three conditions must hold: the statement includes all
// boards of a cluster, there are many boards, and the rules record the columns of the statement.
func (s *rules) suit(ctx context.Context, of Query) (suited bool, err error) {
	_, _, found := familiesFor(of)
	if !found || len(of.Where) > 1 || len(of.Where) == 1 && of.Where["cluster"] == nil {
		return false, nil
	}
	if few, err := s.hasFew(ctx, of); few || err != nil {
		return false, err
	}
	text := "group(last_over_time(" + selector(fleetRule, s.matchers(of, "cluster")...) + fmt.Sprintf("[%ds]))", int(of.Until.Sub(of.From).Seconds()))
	err = s.store.Query(ctx, text, of.Until.Add(time.Hour), func(fold.Series) { suited = true })
	return suited, err
}

// seriesPerBoard is the expected maximum number of placement series per board. A move, a replica or a restart of the
// exporter may add a series.
const seriesPerBoard = 32

// hasFew reports whether the number of GPU hours is small enough to read samples.
func (s *samples) hasFew(ctx context.Context, of Query) (bool, error) {
	most := int(maxSampleHours / of.Until.Sub(of.From).Hours())
	limit := seriesPerBoard * (most + 1)
	found, err := s.store.SomeSeries(ctx, selector(placementMetric, s.matchers(of, "cluster")...), of.From, of.Until, limit)
	boards := make(map[[2]string]bool)
	for _, l := range found {
		boards[[2]string{s.cluster(l), l.Get("UUID")}] = true
	}
	return len(found) < limit && len(boards) <= most, err
}

var ruleColumns = []string{"cluster", "namespace", "serial", "uuid", "manager", "unit"}

const fleetRule = "gpuledger:fleet_energy_joules:increase1h"

// ruleSum is a sum over the series of a rule, grouped by the labels in by. It includes only values that meet the PromQL
// condition.
type ruleSum struct{ rule, by, condition string }

// The reader calls eachSeries for each series of a rule, and then the returned function for each hour. The value is in
// thousandths of the rule's unit.
type eachSeries func(l fold.Labels) (add func(hour time.Time, value int64))

// hourly reads the value of a rule for every hour. The rule is evaluated during the next hour.
func (s *samples) hourly(ctx context.Context, of Query, r ruleSum, series eachSeries) error {
	text := "sum by (" + r.by + ") (last_over_time(" + selector(r.rule, s.matchers(of, ruleColumns...)...) + "[59m]))" + r.condition
	first, last := of.From.Truncate(time.Hour), of.Until.Add(-1).Truncate(time.Hour)
	s.Progress("reading " + r.rule)
	defer s.Progress("")
	var invalid error
	err := s.store.Hourly(ctx, text, first.Add(2*time.Hour), last.Add(2*time.Hour), func(found fold.Series) {
		add := series(found.Labels)
		for _, x := range found.Samples {
			value, err := thousandths(r.rule, x)
			invalid = cmp.Or(invalid, err)
			add(time.UnixMilli(x.Time).UTC().Add(-2*time.Hour), value)
		}
	})
	return cmp.Or(err, invalid)
}

// maxRuled is the largest accepted value of a rule, in joules or seconds. For comparison, a fleet that draws 300 MW
// uses 1e15 J in a month.
const maxRuled = 1e15

func thousandths(rule string, of fold.Sample) (int64, error) {
	if math.Abs(of.Value) > maxRuled {
		return 0, fmt.Errorf("%w: the value %g of %s is impossible", store.ErrIncomplete, of.Value, rule)
	}
	return int64(math.Round(of.Value * 1000)), nil
}

// total reads one sum for each part of the period.
func (s *samples) total(ctx context.Context, of Query, r ruleSum, series eachSeries) error {
	s.Progress("reading " + r.rule)
	defer s.Progress("")
	parts := of.Parts
	if parts == nil {
		parts = []time.Time{of.From}
	}
	for i, from := range parts {
		until := of.Until
		if i+1 < len(parts) {
			until = parts[i+1]
		}
		text := fmt.Sprintf("sum by (%s) (sum_over_time(last_over_time(%s[59m])[%ds:1h] offset -61m))", r.by,
			selector(r.rule, s.matchers(of, ruleColumns...)...), int(until.Sub(from).Seconds()))
		var invalid error
		err := s.store.Query(ctx, text, until, func(found fold.Series) {
			last, ok := found.Last()
			if !ok {
				invalid = fmt.Errorf("%w: a sum of %s is not a number", store.ErrIncomplete, r.rule)
				return
			}
			value, err := thousandths(r.rule, last)
			invalid = cmp.Or(invalid, err)
			series(found.Labels)(from, value)
		})
		if err := cmp.Or(err, invalid); err != nil {
			return err
		}
	}
	return nil
}

// Statement implements [Source]. Energy without a pod or unit has the reason [Unattributed]. The fields Estimated and
// Busy of charges are unknown. The field Exclusive is unknown if the rules do not record it.
func (s *rules) Statement(ctx context.Context, of Query) (*Statement, error) {
	pods, units, found := familiesFor(of)
	switch {
	case !found:
		return nil, s.lack(of)
	case s.elsewhere(of):
		return new(Statement), nil
	}
	st, err := s.charges(ctx, of, pods, units)
	if err != nil {
		return nil, err
	}
	if slices.Contains(pods.columns, "uuid") || slices.Contains(units.columns, "uuid") { // the statement already contains each board
		if err := s.overchargedBoard(ctx, of); err != nil {
			return nil, err
		}
	}
	if of.Rows {
		if st.Rows, err = collect(s.Rows(ctx, of)); err != nil {
			return nil, err
		}
	}
	st.Hours, err = collect(s.Hours(ctx, of))
	return st, err
}

func (s *rules) lack(of Query) error {
	return fmt.Errorf("--store.read=rules: the rules do not record %s: set --store.read=samples, or read an archive with --books", strings.Join(of.By, ", "))
}

func (s *rules) charges(ctx context.Context, of Query, pods, units family) (*Statement, error) {
	all := newSums(of)
	teams, err := s.teams(ctx, of)
	if err != nil {
		return nil, err
	}
	charges := &ruleCharges{s, of, teams, all}
	measured := true
	for _, f := range []family{pods, units} {
		has, err := charges.add(ctx, f)
		if err != nil {
			return nil, err
		}
		measured = measured && has
	}
	if err := s.unattributed(ctx, of, units, all); err != nil {
		return nil, err
	}
	found := all.sorted()
	return &Statement{Charges: found, Unmeasured: !measured && len(found) > 0, Unestimated: len(found) > 0}, nil
}

// Each part of the period requires one query for its sum. If there are more than maxParts parts, each hour is read
// instead.
const maxParts = 32

type ruleCharges struct {
	*rules
	Query
	teams *teams
	all   *sums
}

// add adds the charges from a group of rules. The result reports whether the field Exclusive is known.
func (s *ruleCharges) add(ctx context.Context, f family) (measured bool, err error) {
	of, to := s.Query, s.all
	read := s.hourly
	if few := of.Parts != nil && len(of.Parts) <= maxParts; few || f.name != "namespace" && !to.hourly {
		read = s.total // hourly values of every board or workload would be too many
	}
	series := make(map[string]int)
	for _, a := range ruled {
		rule := "gpuledger:" + f.name + "_" + a.name + ":increase1h"
		err := read(ctx, of, ruleSum{rule: rule, by: strings.Join(f.labels(), ", ")}, func(l fold.Labels) func(time.Time, int64) {
			series[a.name]++
			c := s.ownedBy(l, s.teams)
			if !matches(of, &c, table.ChargeField) {
				return func(time.Time, int64) {}
			}
			amount := a.of(&c)
			return func(hour time.Time, value int64) {
				c.Hour, *amount = hour, value
				to.add(&c)
			}
		})
		if err != nil {
			return false, err
		}
	}
	return series[exclusive] > 0 || series["energy_joules"] == 0, nil
}

func (s *rules) ownedBy(l fold.Labels, teams *teams) table.Charge {
	c := table.Charge{Cluster: s.cluster(l), Model: l.Get("model")}
	c.Node, c.UUID, c.Serial, c.Namespace, c.Pod, c.PodUID = l.Get("node"), l.Get("UUID"), l.Get("serial"), l.Get("namespace"), l.Get("pod"), l.Get("pod_uid")
	c.WorkloadKind, c.WorkloadName, c.WorkloadUID = l.Get("workload_kind"), l.Get("workload_name"), l.Get("workload_uid")
	c.Manager, c.Unit, c.Username, c.Team = l.Get("manager"), l.Get("unit"), l.Get("user"), l.Get("account")
	if c.Manager == "" {
		c.Team = teams.of(c)
	}
	return c
}

// Hours implements [Source]. An hour exists if a rule recorded its energy.
func (s *rules) Hours(ctx context.Context, of Query) iter.Seq2[Hour, error] {
	return sequence(func(each func(Hour) error) error {
		switch _, _, found := familiesFor(of); {
		case s.elsewhere(of):
			return nil
		case !found:
			return s.lack(of)
		}
		var all []Hour
		err := s.hourly(ctx, of, ruleSum{rule: fleetRule, by: "cluster"}, func(l fold.Labels) func(time.Time, int64) {
			return func(hour time.Time, value int64) {
				all = append(all, Hour{Cluster: s.cluster(l), Hour: hour, Energy: value})
			}
		})
		if err != nil {
			return err
		}
		slices.SortFunc(all, Hour.compare)
		return callEach(all, each)
	})
}

func (f family) labels() (names []string) {
	for _, name := range f.columns {
		names = append(names, cmp.Or(labels[name], name))
	}
	return names
}
