package books

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const (
	namespaceRule = "gpuledger:namespace_energy_joules:increase1h"
	userRule      = "gpuledger:user_energy_joules:increase1h"
	boardRestRule = "gpuledger:board_unattributed_energy_joules:increase1h"
)

// MaxNegative is the maximum, in mJ, by which charges can exceed the energy of the boards because of rounding.
const MaxNegative = 1000

// OverchargedError means that recording rules charge more energy than the boards used.
type OverchargedError struct {
	Source, Cluster, Model string
	Hour                   time.Time
	Boards, Charged        int64 // mJ
	// Largest is the namespace or user with the most energy in this hour. Energy is this energy in mJ.
	Largest string
	Energy  int64
	// Board is a board whose charges exceed its energy. If only the sum over all boards is too high, it is empty.
	Board string
}

func (e *OverchargedError) Error() string {
	of := e.Cluster
	if e.Model != "" {
		of = strings.TrimSpace(of + ", " + e.Model)
	}
	text := fmt.Sprintf("%s, hour %s of %s: the rules charge ", e.Source, e.Hour.Format(time.RFC3339), cmp.Or(of, "the cluster"))
	if e.Board != "" {
		text += fmt.Sprintf("board %s %.3f kWh more than it used", e.Board, float64(e.Charged-e.Boards)/3.6e9)
	} else {
		text += fmt.Sprintf("%.3f kWh, but the boards used %.3f kWh; the largest account is %s with %.3f kWh", float64(e.Charged)/3.6e9, float64(e.Boards)/3.6e9, e.Largest, float64(e.Energy)/3.6e9)
	}
	return text + ": compare the rules with dashboards/rules, find the hours with verify --prove, or set --store.read=samples"
}

type rest struct{ boards, charged int64 }

type restKey struct {
	cluster, model string
	hour           time.Time
}

// unattributed adds the energy that was charged to no namespace and no unit.
func (s *rules) unattributed(ctx context.Context, of Query, units family, to *sums) error {
	for name := range of.Where {
		if name != "cluster" {
			return nil
		}
	}
	labels := "cluster"
	if slices.Contains(of.By, modelColumn) {
		labels += ", " + modelColumn
	}
	rests, err := s.rests(ctx, of, units, labels)
	if err != nil {
		return err
	}
	var wrong *restKey // first hour with an error
	for key, r := range rests {
		if r.charged-r.boards > MaxNegative && (wrong == nil || key.compare(*wrong) < 0) {
			wrong = &key
		}
		c := table.Charge{Cluster: key.cluster, Model: key.model, Hour: key.hour, Reason: Unattributed, Energy: r.boards - r.charged}
		to.add(&c)
	}
	if wrong != nil {
		return s.overcharged(ctx, of, *wrong, *rests[*wrong])
	}
	return nil
}

func (s *rules) rests(ctx context.Context, of Query, units family, labels string) (map[restKey]*rest, error) {
	rests := make(map[restKey]*rest)
	for _, rule := range []string{fleetRule, namespaceRule, "gpuledger:" + units.name + "_energy_joules:increase1h"} {
		err := s.hourly(ctx, of, ruleSum{rule: rule, by: labels}, func(l fold.Labels) func(time.Time, int64) {
			return func(hour time.Time, value int64) {
				key := restKey{s.cluster(l), l.Get(modelColumn), hour}
				if rests[key] == nil {
					rests[key] = new(rest)
				}
				if rule == fleetRule {
					rests[key].boards += value
				} else {
					rests[key].charged += value
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return rests, nil
}

func (k restKey) compare(other restKey) int {
	return cmp.Or(k.hour.Compare(other.hour), cmp.Compare(k.cluster, other.cluster), cmp.Compare(k.model, other.model))
}

func (s *rules) overcharged(ctx context.Context, of Query, key restKey, r rest) error {
	of.From, of.Until = key.hour, key.hour.Add(time.Hour)
	e := &OverchargedError{Source: s.Name(), Cluster: key.cluster, Model: key.model, Hour: key.hour, Boards: r.boards, Charged: r.charged}
	for _, rule := range []string{namespaceRule, userRule} {
		err := s.hourly(ctx, of, ruleSum{rule: rule, by: "cluster, namespace, manager, user"}, func(l fold.Labels) func(time.Time, int64) {
			return func(_ time.Time, value int64) {
				if s.cluster(l) == key.cluster && value > e.Energy {
					e.Largest, e.Energy = Account(l.Get("namespace"), l.Get("manager"), l.Get("user")), value
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return e
}

func (s *rules) overchargedBoard(ctx context.Context, of Query) error {
	boards, err := s.Overcharged(ctx, of)
	if err != nil || len(boards) == 0 {
		return err
	}
	b := boards[0]
	return &OverchargedError{Source: s.Name(), Cluster: b.Cluster, Hour: b.Hour, Charged: b.Excess, Board: cmp.Or(b.Serial, b.UUID)}
}

// Account names the owner of charges in rules: a namespace, or a manager with a user.
func Account(namespace, manager, user string) string {
	if manager == "" {
		return "namespace " + namespace
	}
	return strings.TrimSpace("manager " + manager + " " + user)
}

// Ruled is a store that contains the results of recording rules.
type Ruled interface {
	// RuleSums returns the energy that the rules recorded for namespaces and managers, by hour. The rule for boards
	// records the energy without an owner, which has the reason [Unattributed]. RuleSums does not check that the sums
	// balance, so that callers can compare them.
	RuleSums(ctx context.Context, of Query) (*Statement, error)
	// Overcharged returns boards whose charges exceed their energy, sorted by time. It returns at most 20 boards.
	Overcharged(ctx context.Context, of Query) ([]OverchargedBoard, error)
}

// OverchargedBoard is a board for which rules charged more energy in one hour than the board used.
type OverchargedBoard struct {
	Cluster, UUID, Serial string
	Hour                  time.Time
	Excess                int64 // mJ
}

// RuleSums implements [Ruled].
func (s *rules) RuleSums(ctx context.Context, of Query) (*Statement, error) {
	if s.elsewhere(of) {
		return new(Statement), nil
	}
	of.By = []string{"cluster", hourColumn, "namespace", "manager", "reason"}
	all := newSums(of)
	pods, units, _ := familiesFor(of)
	charges := &ruleCharges{s, of, nil, all}
	for _, f := range []family{pods, units} {
		if _, err := charges.add(ctx, f); err != nil {
			return nil, err
		}
	}
	err := s.hourly(ctx, of, ruleSum{rule: boardRestRule, by: "cluster"}, func(l fold.Labels) func(time.Time, int64) {
		return func(hour time.Time, value int64) {
			c := table.Charge{Cluster: s.cluster(l), Hour: hour}
			c.Reason, c.Energy = Unattributed, value
			all.add(&c)
		}
	})
	if err != nil {
		return nil, err
	}
	hours, err := collect(s.Hours(ctx, of))
	return &Statement{Charges: all.sorted(), Hours: hours}, err
}

const maxOvercharged = 20

// Overcharged implements [Ruled].
func (s *rules) Overcharged(ctx context.Context, of Query) (found []OverchargedBoard, err error) {
	if s.elsewhere(of) {
		return nil, nil
	}
	err = s.hourly(ctx, of, ruleSum{boardRestRule, "cluster, UUID, serial", " < -1"}, func(l fold.Labels) func(time.Time, int64) {
		return func(hour time.Time, value int64) {
			found = append(found, OverchargedBoard{s.cluster(l), l.Get("UUID"), l.Get("serial"), hour, -value})
		}
	})
	slices.SortFunc(found, func(a, b OverchargedBoard) int {
		return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.UUID, b.UUID))
	})
	return found[:min(len(found), maxOvercharged)], err
}
