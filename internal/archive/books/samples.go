package books

import (
	"cmp"
	"context"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Reading describes how to read a store.
type Reading struct {
	// Read is samples, rules or auto.
	Read string
	// Team is the label of pods or namespaces that names the team.
	Team string
	// Progress shows the current step. An empty text hides it.
	Progress func(text string)
}

// samples computes rows from the samples in a store. It uses the code of the archive, so that both return the same
// rows.
type samples struct {
	store *store.Store
	Reading
}

func (s *samples) Name() string { return s.store.URL() }

func (s *samples) Close() error {
	s.store.Close()
	return nil
}

const (
	placementMetric  = "gpuledger_placement_info"
	boardMetric      = "gpuledger_board_energy_joules_total"
	allocationMetric = "gpuledger_allocation_energy_joules_total"
	unitMetric       = "gpuledger_unit_allocation_energy_joules_total"
)

// labels maps columns to labels. It omits columns whose label has the same name.
var labels = map[string]string{"uuid": "UUID", "team": "account", "username": "user"}

func matcher(column string, values []string) string {
	label := cmp.Or(labels[column], column)
	if len(values) == 1 {
		return label + "=" + strconv.Quote(values[0])
	}
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = regexp.QuoteMeta(value)
	}
	return label + "=~" + strconv.Quote(strings.Join(quoted, "|"))
}

// matchers returns PromQL matchers for columns of a query. If the store has only one cluster, its series have no label
// cluster.
func (s *samples) matchers(of Query, columns ...string) (all []string) {
	for _, name := range columns {
		if values, ok := of.Where[name]; ok && (name != "cluster" || s.store.Cluster() == "") {
			all = append(all, matcher(name, values))
		}
	}
	return all
}

func selector(metric string, matchers ...string) string {
	return metric + "{" + strings.Join(matchers, ",") + "}"
}

func (s *samples) cluster(l fold.Labels) string { return cmp.Or(s.store.Cluster(), l.Get("cluster")) }

// elsewhere reports whether the query excludes the store's only cluster.
func (s *samples) elsewhere(of Query) bool {
	return s.store.Cluster() != "" && !of.matches("cluster", s.store.Cluster())
}

// Hours implements [Source]. An hour exists if the store contains samples of a board.
func (s *samples) Hours(ctx context.Context, of Query) iter.Seq2[Hour, error] {
	return sequence(func(each func(Hour) error) error {
		if s.elsewhere(of) {
			return nil
		}
		first := of.From.Truncate(time.Hour)
		for length := time.Duration(1); first.Before(of.Until); first, length = first.Add(length*time.Hour), min(2*length, 24) {
			found, err := s.sampled(ctx, of, first, earlier(first.Add(length*time.Hour), of.Until))
			if err != nil {
				return err
			}
			if err := callEach(found, each); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *samples) sampled(ctx context.Context, of Query, first, until time.Time) (found []Hour, err error) {
	text := "group by (cluster) (last_over_time(" + selector(boardMetric, s.matchers(of, "cluster")...) + "[3599999ms]))"
	last := until.Add(-1).Truncate(time.Hour)
	err = s.store.Hourly(ctx, text, first.Add(time.Hour), last.Add(time.Hour), func(series fold.Series) {
		for _, x := range series.Samples {
			found = append(found, Hour{Cluster: s.cluster(series.Labels), Hour: time.UnixMilli(x.Time).UTC().Add(-time.Hour)})
		}
	})
	slices.SortFunc(found, Hour.compare)
	return found, err
}

func (h Hour) compare(other Hour) int {
	return cmp.Or(h.Hour.Compare(other.Hour), cmp.Compare(h.Cluster, other.Cluster))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Rows implements [Source].
func (s *samples) Rows(ctx context.Context, of Query) iter.Seq2[Row, error] {
	return sequence(func(each func(Row) error) error {
		return s.read(ctx, of, of.Places, func(hours []foldedHour) error { return callEach(rowsOf(of, hours), each) })
	})
}

func rowsOf(of Query, hours []foldedHour) (all []Row) {
	for _, h := range hours {
		for _, g := range h.GPUs {
			if g.Cluster, g.Hour = h.Cluster, h.Start; matches(of, &g, table.GPUField) {
				all = append(all, Row{GPU: g, Refused: h.refused})
			}
		}
	}
	slices.SortStableFunc(all, compareRows)
	return all
}

// matches ignores columns of the query that the row does not have.
func matches[T any](of Query, row *T, field func(name string) (table.Field[T], bool)) bool {
	for name := range of.Where {
		if f, ok := field(name); ok && !of.matches(name, *f.Text(row)) {
			return false
		}
	}
	return true
}

// Statement implements [Source].
func (s *samples) Statement(ctx context.Context, of Query) (*Statement, error) {
	all, pods, bounds, st := newSums(of), make(unknownPods), make(uncounted), new(Statement)
	by := owners
	if of.Checks {
		by = append(slices.Clone(owners), owner{"kube_pod_info", "uid", "pod_uid"})
	}
	err := s.read(ctx, of, false, func(hours []foldedHour) error {
		if err := s.name(ctx, hours, by); err != nil {
			return err
		}
		for _, h := range hours {
			st.Hours = append(st.Hours, h.hour())
			for _, board := range h.refused {
				st.Refusals = append(st.Refusals, Refusal{h.Cluster, h.Start, board})
			}
			h.charge(of, all)
			if of.Checks {
				h.check(pods, bounds)
			}
		}
		if of.Rows {
			st.Rows = append(st.Rows, rowsOf(of, hours)...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(st.Hours, Hour.compare)
	SortRefusals(st.Refusals)
	st.Charges, st.UnknownPods, st.Uncounted = all.sorted(), pods.sorted(), bounds.sorted()
	st.Bounded = of.Checks && !s.elsewhere(of)
	return st, nil
}

// SortRefusals sorts refusals by cluster, hour and board.
func SortRefusals(all []Refusal) {
	slices.SortFunc(all, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), a.Hour.Compare(b.Hour), cmp.Compare(a.Board.Node, b.Board.Node), cmp.Compare(a.Board.UUID, b.Board.UUID))
	})
}

// foldedHour contains the rows of an hour, and the boards whose samples are impossible.
type foldedHour struct {
	*table.Hour
	refused fold.BoardErrors
}

func (h foldedHour) hour() Hour {
	found := Hour{Cluster: h.Cluster, Hour: h.Start}
	for i := range h.GPUs {
		found.Energy += h.GPUs[i].Energy
	}
	if h.Refused {
		found.State = Refused
	}
	return found
}

func (h foldedHour) charge(of Query, to *sums) {
	hour, models := h.Start.UnixMilli(), new(table.Models)
	for _, g := range h.GPUs {
		models.Add(hour, g.Node, g.UUID, g.Model)
	}
	for _, c := range h.Charges {
		c.Cluster, c.Hour, c.Model = h.Cluster, h.Start, models.Of(hour, c.Node, c.UUID)
		if matches(of, &c, table.ChargeField) {
			to.add(&c)
		}
	}
}

func (h foldedHour) check(pods unknownPods, bounds uncounted) {
	energy := make(map[table.PodID]int64)
	for _, c := range h.Charges {
		energy[table.PodID{Namespace: c.Namespace, Pod: c.Pod, UID: c.PodUID}] += c.Energy
	}
	for _, pod := range h.UnknownPods {
		pods.add(h.Cluster, pod, energy[pod])
	}
	for _, g := range h.GPUs {
		bounds.add(Uncounted{h.Cluster, g.Node, g.UUID, g.Serial, g.Uncounted})
	}
}
