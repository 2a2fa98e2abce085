package archive

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// refusal explains why an hour is not archived.
type refusal struct {
	error
	acceptable bool // an operator can accept the hour
}

func (r *refusal) Unwrap() error { return r.error }

func refused(err error) error {
	if errors.Is(err, store.ErrIncomplete) || errors.Is(err, store.ErrTooLarge) {
		return &refusal{error: err}
	}
	return err
}

// errGone means that a cluster has no samples in an hour and no later samples.
var errGone = errors.New("the cluster has no samples in this hour or later")

// The packages fold and store define further reasons for refusals.
var (
	errLagging     = errors.New("no samples after the hour: remote write lags, or the cluster is down")
	errDownsampled = errors.New("the samples are downsampled: query raw data")
	errSilent      = errors.New("check the store")
)

const (
	// maxLag is the maximum delay of samples. If a cluster has no samples for a longer time, it counts as gone.
	maxLag = 48 * time.Hour
	// maxSilent is the maximum share of nodes without samples and without an explanation.
	maxSilent = 0.05
)

// coverage contains the data that decide whether an hour is complete.
type coverage struct {
	start time.Time
	// targets contains targets that were scraped, even if every scrape failed.
	nodes   map[string]bool
	targets []string
	// before contains the nodes with boards in the previous hour. If the previous hour is not archived, it contains the
	// nodes of the last archived hour. kept contains the nodes of the archived rows of this hour.
	before, kept []string
	// spacings contains the distances between the samples of each node. scrapes contains the times of the successful
	// scrapes of each target.
	spacings map[string]*spacing
	scrapes  map[string][][]int64
	// sampledAfter is set if there are samples after the hour, or if all nodes of the cluster are gone.
	sampledAfter bool
	// listed is set if the samples of the hour list the Nodes of the cluster. explained contains the nodes that rightly
	// have no samples: they were removed or drained, or their boards are on other nodes.
	listed    bool
	explained []string
	now       time.Time
	// accepted is the operator's reason for accepting missing samples, or empty. gone is set if the cluster had no
	// samples for two days after an accepted hour.
	accepted string
	gone     bool
}

func newCoverage() coverage {
	return coverage{nodes: make(map[string]bool), spacings: make(map[string]*spacing)}
}

func (c *coverage) add(series []fold.Series) {
	for _, s := range series {
		node := s.Labels.Get("node")
		c.nodes[node] = true
		if c.spacings[node] == nil {
			c.spacings[node] = &spacing{}
		}
		c.spacings[node].add(s)
	}
}

func (c *coverage) sparse() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(c.spacings)), func(s *spacing) bool { return len(s.sparse) > 0 })
}

// empty reports whether the cluster was not scraped. A failed scrape also adds a target.
func (c *coverage) empty() bool { return len(c.nodes)+len(c.targets) == 0 }

// check returns a refusal if samples may be missing, and errGone if the cluster is gone.
func (c *coverage) check() (table.State, error) {
	for node, s := range c.spacings {
		if s.thinned(c.scrapes[node]) {
			return "", &refusal{error: fmt.Errorf("node %s: %w", node, errDownsampled)}
		}
	}
	if lost := c.silent(c.kept); len(lost) > 0 {
		return "", &refusal{error: fmt.Errorf("%s of the filed hour now have no samples: %w", some(lost), errSilent)}
	}
	switch err := c.missing(); {
	case err == nil:
		return table.Complete, nil
	case c.accepted != "":
		return table.Gaps, nil
	case len(c.kept) > 0 && errors.Is(err, errSilent):
		return table.Complete, nil // the archived hour also lacks these nodes, and the samples that explained this may have expired
	default:
		return "", err
	}
}

func (c *coverage) missing() error {
	silent := c.silent(c.before)
	expected := len(c.before) - len(c.explained)
	unexplained := slices.DeleteFunc(silent, func(node string) bool { return slices.Contains(c.explained, node) })
	if err := c.lagging(); err != nil {
		return err
	}
	switch {
	case len(c.before) == 0 && c.empty() && !c.listed:
		return &refusal{fmt.Errorf("no node has samples: %w", errSilent), true}
	case len(unexplained) > 0 && (len(unexplained) == expected || len(unexplained) > 1 && float64(len(unexplained)) > maxSilent*float64(len(c.before))):
		return &refusal{fmt.Errorf("%d of %d nodes of the previous hour, such as %s, have neither samples nor failed scrapes: %w",
			len(unexplained), len(c.before), some(unexplained), errSilent), true}
	}
	return nil
}

func (c *coverage) lagging() error {
	late := c.now.Sub(c.start) >= maxLag
	switch {
	case c.sampledAfter:
		return nil
	case c.empty() && (c.gone || late):
		return errGone
	case !late:
		return &refusal{errLagging, c.empty()}
	}
	return nil
}

func some(nodes []string) string { return strings.Join(nodes[:min(3, len(nodes))], ", ") }

// silent returns the nodes without samples. A failed scrape also leaves samples.
func (c *coverage) silent(of []string) (silent []string) {
	for _, node := range of {
		if !c.nodes[node] && !slices.Contains(c.targets, node) {
			silent = append(silent, node)
		}
	}
	slices.Sort(silent)
	return silent
}
