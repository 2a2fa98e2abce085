package books

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Reading describes how a store is read.
type Reading struct {
	// Read is the data to read: samples, rules or auto.
	Read string
	// Team is the label of pods or namespaces with the name of a team.
	Team string
	// Progress shows the current step; an empty text hides it.
	Progress func(text string)
}

// samples has the books in the raw samples of a store. It folds them as the archive does, so that
// both have the same rows.
type samples struct {
	store *store.Store
	Reading
	// The rest is remembered to read it once: no answer depends on it. hours has the folded hours by selection.
	hours map[string]map[Hour]*foldedHour
	// filed has the hours that were counted with boards, by selection.
	filed map[string][]Hour
	// last is the last fold of few hours: a report has the stays and the charges of a board.
	last folded
	// ruled has whether charges are read from rules, by selection and columns.
	ruled map[string]bool
	// refused has the boards with impossible records by the hour that was read, for [Source.Refused].
	refused map[Hour]fold.BoardErrors
}

// foldedHour is the energy of the boards in an hour, in mJ, and their uncounted energy.
type foldedHour struct {
	energy    int64
	uncounted []Uncounted
	refused   bool
}

// OpenStore returns the books in a store. It does not connect.
func OpenStore(config store.Config, reading Reading) (Source, error) {
	s, err := store.New(config)
	if err != nil {
		return nil, err
	}
	if reading.Progress == nil {
		reading.Progress = func(string) {}
	}
	return &samples{
		store: s, Reading: reading, hours: make(map[string]map[Hour]*foldedHour), filed: make(map[string][]Hour),
		ruled: make(map[string]bool), refused: make(map[Hour]fold.BoardErrors),
	}, nil
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

// labels are the labels of columns that have another name.
var labels = map[string]string{"uuid": "UUID", "team": "account", "username": "user"}

// matcher returns a matcher of values of a column.
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

// matchers returns the matchers of some columns of a selection. A store of one cluster has no label
// cluster.
func (s *samples) matchers(of Selection, columns ...string) (all []string) {
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

// cluster returns the cluster of a series.
func (s *samples) cluster(l fold.Labels) string { return cmp.Or(s.store.Cluster(), l.Get("cluster")) }

// elsewhere reports whether a selection excludes the cluster of the store.
func (s *samples) elsewhere(of Selection) bool {
	return s.store.Cluster() != "" && !of.matches("cluster", s.store.Cluster())
}

// Hours implements [Source]. An hour is filed if the store has samples of a board, or the result of a rule.
func (s *samples) Hours(ctx context.Context, of Selection, each func(Hour) bool) error {
	if s.elsewhere(of) {
		return nil
	}
	if of.Energy || s.Read == "rules" {
		switch byRules, err := s.useRules(ctx, of, of.By); {
		case err != nil:
			return err
		case byRules:
			return s.hoursByRules(ctx, of, each)
		}
		return s.hoursWithEnergy(ctx, of, each)
	}
	if of.Counted {
		if _, counted := s.filed[of.key()]; !counted {
			if _, err := s.Boards(ctx, of); err != nil {
				return err
			}
		}
		for _, h := range s.filed[of.key()] {
			if !each(h) {
				break
			}
		}
		return nil
	}
	text := "group by (cluster) (last_over_time(" + selector(boardMetric, s.matchers(of, "cluster")...) + "[3599999ms]))"
	first := of.From.Truncate(time.Hour)
	for length := time.Duration(1); first.Before(of.Until); first, length = first.Add(length*time.Hour), min(2*length, 24) {
		found := make(map[time.Time][]string)
		last := earlier(first.Add(length*time.Hour), of.Until).Add(-1).Truncate(time.Hour)
		err := s.store.Hourly(ctx, text, first.Add(time.Hour), last.Add(time.Hour), func(series fold.Series) {
			for _, x := range series.Samples {
				hour := time.UnixMilli(x.Time).UTC().Add(-time.Hour)
				found[hour] = append(found[hour], s.cluster(series.Labels))
			}
		})
		if err != nil {
			return err
		}
		for _, hour := range slices.SortedFunc(maps.Keys(found), time.Time.Compare) {
			slices.Sort(found[hour])
			for _, cluster := range found[hour] {
				if !each(Hour{Cluster: cluster, Hour: hour}) {
					return nil
				}
			}
		}
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// hoursWithEnergy folds the boards, unless that was done for the charges.
func (s *samples) hoursWithEnergy(ctx context.Context, of Selection, each func(Hour) bool) error {
	key := of.key()
	if s.hours[key] == nil {
		found := make(map[Hour]*foldedHour)
		err := s.fold(ctx, of, false, func(hours []*table.Hour) error {
			addHoursOf(found, hours)
			return nil
		})
		if err != nil {
			return err
		}
		s.hours[key] = found
	}
	hours := slices.SortedFunc(maps.Keys(s.hours[key]), func(a, b Hour) int {
		return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Cluster, b.Cluster))
	})
	for _, hour := range hours {
		h, found := hour, s.hours[key][hour]
		if h.Energy = found.energy; found.refused {
			h.State = Refused
		}
		if !each(h) {
			return nil
		}
	}
	return nil
}

// addHoursOf adds the energy of boards by hour.
func addHoursOf(to map[Hour]*foldedHour, hours []*table.Hour) {
	for _, h := range hours {
		found := &foldedHour{refused: h.Refused}
		for _, g := range h.GPUs {
			if found.energy += g.Energy; g.Uncounted > 0 {
				found.uncounted = append(found.uncounted, Uncounted{h.Cluster, g.Node, g.UUID, g.Serial, g.Uncounted})
			}
		}
		to[Hour{Cluster: h.Cluster, Hour: h.Start}] = found
	}
}

// GPUs implements [Source].
func (s *samples) GPUs(ctx context.Context, of Selection, each func(table.GPU)) error {
	return s.fold(ctx, of, of.Places, func(hours []*table.Hour) error {
		var all []table.GPU
		for _, h := range hours {
			for _, g := range h.GPUs {
				if g.Cluster, g.Hour = h.Cluster, h.Start; of.matchesGPU(&g) {
					all = append(all, g)
				}
			}
		}
		slices.SortStableFunc(all, compareGPUs)
		for _, g := range all {
			each(g)
		}
		return nil
	})
}

// matchesGPU reports whether a GPU is selected.
func (s Selection) matchesGPU(g *table.GPU) bool {
	for name := range s.Where {
		if f, ok := table.GPUField(name); ok && !s.matches(name, *f.Text(g)) {
			return false
		}
	}
	return true
}

// matchesCharge reports whether a charge is selected.
func (s Selection) matchesCharge(c *table.Charge) bool {
	for name := range s.Where {
		if f, ok := table.ChargeField(name); ok && !s.matches(name, *f.Text(c)) {
			return false
		}
	}
	return true
}

// Charges implements [Source].
func (s *samples) Charges(ctx context.Context, of Selection, by ...string) ([]table.Charge, error) {
	switch byRules, err := s.useRules(ctx, of, by); {
	case err != nil:
		return nil, err
	case byRules:
		return s.chargesByRules(ctx, of, by)
	}
	all := newSums(of, by)
	read := make(map[Hour]*foldedHour)
	err := s.fold(ctx, of, false, func(hours []*table.Hour) error {
		if err := s.name(ctx, hours, owners); err != nil {
			return err
		}
		addHoursOf(read, hours)
		for _, h := range hours {
			models := make(map[string]string)
			for _, g := range h.GPUs {
				models[g.UUID] = cmp.Or(g.Model, models[g.UUID])
			}
			for _, c := range h.Charges {
				c.Cluster, c.Hour, c.Model = h.Cluster, h.Start, models[c.UUID]
				if of.matchesCharge(&c) {
					all.add(&c)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.hours[of.key()] = read
	return all.sorted(), nil
}

// Refused implements [Source].
func (s *samples) Refused() (all []Refusal) {
	for hour, boards := range s.refused {
		for _, board := range boards {
			all = append(all, Refusal{hour.Cluster, hour.Hour, board})
		}
	}
	slices.SortFunc(all, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), a.Hour.Compare(b.Hour), cmp.Compare(a.Board.Node, b.Board.Node), cmp.Compare(a.Board.UUID, b.Board.UUID))
	})
	return all
}

// UnknownPods implements [Source]. Rules have no pods.
func (s *samples) UnknownPods(ctx context.Context, of Selection) ([]UnknownPod, error) {
	if byRules, err := s.useRules(ctx, of, of.By); byRules || err != nil {
		return nil, err
	}
	all := make(unknownPods)
	err := s.fold(ctx, of, false, func(hours []*table.Hour) error {
		if err := s.name(ctx, hours, append(slices.Clone(owners), owner{"kube_pod_info", "uid", "pod_uid"})); err != nil {
			return err
		}
		for _, h := range hours {
			energy := make(map[table.PodID]int64)
			for _, c := range h.Charges {
				energy[table.PodID{Namespace: c.Namespace, Pod: c.Pod, UID: c.PodUID}] += c.Energy
			}
			for _, pod := range h.UnknownPods {
				all.add(h.Cluster, pod, energy[pod])
			}
		}
		return nil
	})
	return all.sorted(), err
}
