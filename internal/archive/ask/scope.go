package ask

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Scope describes the data that a reader may see. The zero value allows no data.
type Scope struct {
	// All is set if the reader may see all data.
	All   bool
	Rules []Rule
}

// Rule selects the data that match all its lists. An empty list matches all data.
type Rule struct {
	Teams      []string `json:"teams,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
	Clusters   []string `json:"clusters,omitempty"`
}

// ErrScope means that the scope of the reader does not allow a question.
var ErrScope = errors.New("outside the scope of this reader")

// others replaces the reason of charges outside the reader's scope.
const others = "others"

// reach is the smallest scope that allows a question. The zero value requires Scope.All.
type reach int

const (
	clusterReach reach = iota + 1 // allowed for readers of whole clusters
	chargeReach                   // also allowed for readers of teams or namespaces
)

func (s Scope) allows(c *command, o *options) error {
	switch {
	case s.All:
		return nil
	case len(s.Rules) == 0:
		return ErrScope
	case c.reach == chargeReach && (s.clusterwide() || len(o.names) == 0 && o.Format == ""):
		return nil
	case c.reach == clusterReach && s.clusterwide():
		return nil
	}
	return fmt.Errorf("%w: %s", ErrScope, c.name)
}

func (s Scope) clusterwide() bool {
	return !slices.ContainsFunc(s.Rules, func(r Rule) bool { return len(r.Teams)+len(r.Namespaces) > 0 })
}

// The result is nil if the scope includes all clusters.
func (s Scope) clusters() (names []string) {
	for _, r := range s.Rules {
		if len(r.Clusters) == 0 {
			return nil
		}
		names = append(names, r.Clusters...)
	}
	return names
}

func (s Scope) contains(c *table.Charge) bool {
	in := func(allowed []string, value string) bool { return len(allowed) == 0 || slices.Contains(allowed, value) }
	return slices.ContainsFunc(s.Rules, func(r Rule) bool {
		return in(r.Teams, c.Team) && in(r.Namespaces, c.Namespace) && in(r.Clusters, c.Cluster)
	})
}

// limit returns a source with only the data in the scope.
func (s Scope) limit(source books.Source) books.Source {
	if s.All {
		return source
	}
	limited := &scoped{source, s}
	if sums, ok := source.(books.Summing); ok {
		return &scopedSums{limited, sums}
	}
	return limited
}

// scoped limits a source to the clusters in the scope. In these clusters, the reader sees the charges of the reader's
// teams and namespaces. Other charges have energy and times but no names, so that sums are complete.
type scoped struct {
	source books.Source
	scope  Scope
}

func (s *scoped) clusters(of books.Query) (books.Query, error) {
	allowed := s.scope.clusters()
	if allowed == nil {
		return of, nil
	}
	if given, ok := of.Where["cluster"]; ok {
		allowed = slices.DeleteFunc(slices.Clone(allowed), func(name string) bool { return !slices.Contains(given, name) })
	}
	if len(allowed) == 0 {
		return of, ErrScope
	}
	return where(of, "cluster", allowed...), nil
}

// places limits a query for the places of GPUs. Only readers of whole clusters may see places.
func (s *scoped) places(of books.Query) (books.Query, error) {
	if !s.scope.clusterwide() {
		return of, ErrScope
	}
	return s.clusters(of)
}

// Statement implements [books.Source].
func (s *scoped) Statement(ctx context.Context, of books.Query) (*books.Statement, error) {
	of, err := s.clusters(of)
	if err != nil {
		return nil, err
	}
	if s.scope.clusterwide() {
		return s.source.Statement(ctx, of)
	}
	of.By = compact(append(slices.Clone(of.By), "cluster", "namespace", "team", "reason"))
	of.Checks, of.Rows = false, false
	all, err := s.source.Statement(ctx, of)
	if err != nil {
		return nil, err
	}
	st := &books.Statement{Hours: all.Hours, Unmeasured: all.Unmeasured, Unestimated: all.Unestimated}
	for i := range all.Charges {
		st.Charges = append(st.Charges, s.charge(&all.Charges[i]))
	}
	return st, nil
}

func (s *scoped) charge(c *table.Charge) table.Charge {
	if c.Reason == "" && s.scope.contains(c) {
		return *c
	}
	hidden := table.Charge{Cluster: c.Cluster, Model: c.Model, Hour: c.Hour, Reason: c.Reason}
	if hidden.Reason == "" {
		hidden.Reason = others
	}
	hidden.Add(c)
	return hidden
}

// Rows implements [books.Source].
func (s *scoped) Rows(ctx context.Context, of books.Query) iter.Seq2[books.Row, error] {
	of, err := s.places(of)
	if err != nil {
		return func(yield func(books.Row, error) bool) { yield(books.Row{}, err) }
	}
	return s.source.Rows(ctx, of)
}

// Hours implements [books.Source].
func (s *scoped) Hours(ctx context.Context, of books.Query) iter.Seq2[books.Hour, error] {
	of, err := s.clusters(of)
	if err != nil {
		return func(yield func(books.Hour, error) bool) { yield(books.Hour{}, err) }
	}
	return s.source.Hours(ctx, of)
}

// Boards implements [books.Source].
func (s *scoped) Boards(ctx context.Context, of books.Query) ([]books.Board, error) {
	of, err := s.places(of)
	if err != nil {
		return nil, err
	}
	return s.source.Boards(ctx, of)
}

// Counted implements [books.Source].
func (s *scoped) Counted(ctx context.Context, of books.Query) ([]books.Board, []books.Hour, error) {
	of, err := s.places(of)
	if err != nil {
		return nil, nil, err
	}
	return s.source.Counted(ctx, of)
}

// Name implements [books.Source].
func (s *scoped) Name() string { return s.source.Name() }

// Close implements [books.Source].
func (s *scoped) Close() error { return s.source.Close() }

type scopedSums struct {
	*scoped
	sums books.Summing
}

// Errors implements [books.Summing].
func (s *scopedSums) Errors(ctx context.Context, of books.Query) (map[string]table.GPU, error) {
	of, err := s.places(of)
	if err != nil {
		return nil, err
	}
	return s.sums.Errors(ctx, of)
}

// Faults implements [books.Summing].
func (s *scopedSums) Faults(ctx context.Context, of books.Query) (*books.Faults, error) {
	of, err := s.places(of)
	if err != nil {
		return nil, err
	}
	return s.sums.Faults(ctx, of)
}
