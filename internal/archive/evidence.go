package archive

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/store"
)

const (
	// Samples of a removed Node may stay in the store for some minutes. If a Node was removed before an hour, it may
	// therefore be listed in the first minutes (grace) of the hour.
	grace = 15 * time.Minute
	// If a board moved in an hour, its next reading may be up to maxMove after this hour.
	maxMove = 24 * time.Hour
	// The newest samples of a store may list a removed Node for this time.
	recent = 10 * time.Minute
)

// A Node exists while one of these metrics names the Node. kube-state-metrics and the reconciler export them. The
// leading reconciler also exports its leadership, in a series without a node.
const (
	leading    = "gpuledger_reconciler_leading"
	cordon     = "kube_node_spec_unschedulable"
	gpuPods    = "gpuledger_pod_info"
	allPods    = "kube_pod_info"
	leaderName = "" // the name of the leader's series in listing.nodes
)

var nodeLists = []string{"kube_node_info", "kube_node_created", cordon, "gpuledger_node_expected", "gpuledger_node_machine_info", leading}

// source is a scrape target that lists Nodes, such as a shard of kube-state-metrics.
type source struct{ job, instance string }

type listing struct {
	nodes    map[string]bool
	by       map[source][]string
	cordoned map[string]bool
}

func (a *archive) list(ctx context.Context, cluster string, in store.Window) (*listing, error) {
	l := &listing{nodes: make(map[string]bool), by: make(map[source][]string), cordoned: make(map[string]bool)}
	for _, metric := range nodeLists {
		found, err := a.store.Last(ctx, a.store.Selector(metric, cluster), in)
		if err != nil {
			return nil, err
		}
		for _, x := range found {
			l.add(metric, x)
		}
	}
	return l, nil
}

func (l *listing) add(metric string, x fold.Series) {
	last, sampled := x.Last()
	node, value := x.Labels.Get("node"), last.Value
	if metric == leading {
		node = leaderName
	}
	if !sampled || metric == leading && value != 1 || metric != leading && node == "" {
		return
	}
	from := source{x.Labels.Get("job"), x.Labels.Get("instance")}
	l.nodes[node] = true
	l.by[from] = append(l.by[from], node)
	if metric == cordon && value == 1 {
		l.cordoned[node] = true
	}
}

// removed reports whether a Node was listed earlier but is no longer listed. Its source must still list another Node.
// Otherwise the store may have lost the source.
func removed(node string, earlier, now *listing) bool {
	if now.nodes[node] {
		return false
	}
	for _, names := range earlier.by {
		if slices.Contains(names, node) && slices.ContainsFunc(names, func(other string) bool { return now.nodes[other] }) {
			return true
		}
	}
	return false
}

// explain finds the reasons why nodes have no samples: a node was removed, or was drained, or all its boards are now on
// other nodes.
func (a *archive) explain(ctx context.Context, cluster string, c *coverage) error {
	silent := c.silent(c.before)
	if len(silent) == 0 && !c.empty() {
		return nil
	}
	gone, err := a.gone(ctx, cluster, silent, store.Window{After: c.start.Add(grace), Until: c.start.Add(time.Hour)})
	if err != nil {
		return err
	}
	moved, err := a.moved(ctx, cluster, c, silent)
	if err != nil {
		return err
	}
	c.listed = gone != nil
	for _, node := range silent {
		if gone[node] || moved[node] {
			c.explained = append(c.explained, node)
		}
	}
	return nil
}

func (a *archive) allGone(ctx context.Context, cluster string, c *coverage) (bool, error) {
	end := c.start.Add(time.Hour)
	until := end.Add(time.Hour)
	if until.After(c.now) {
		until = c.now
	}
	from := until.Add(-recent)
	if from.Before(end) {
		from = end
	}
	scraped := slices.Concat(slices.Collect(maps.Keys(c.nodes)), c.targets)
	gone, err := a.gone(ctx, cluster, scraped, store.Window{After: from, Until: until})
	return gone != nil && !slices.ContainsFunc(scraped, func(node string) bool { return !gone[node] }), err
}

// The result of gone is nil if the samples in the window list no Nodes.
func (a *archive) gone(ctx context.Context, cluster string, nodes []string, in store.Window) (map[string]bool, error) {
	now, err := a.list(ctx, cluster, in)
	if err != nil || len(now.nodes) == 0 {
		return nil, err
	}
	earlier, err := a.list(ctx, cluster, store.Window{After: in.After.Add(-fold.Lookback), Until: in.After})
	if err != nil {
		return nil, err
	}
	drained, err := a.drained(ctx, cluster, now, in)
	if err != nil {
		return nil, err
	}
	gone := make(map[string]bool)
	for _, node := range nodes {
		gone[node] = drained[node] || removed(node, earlier, now)
	}
	return gone, nil
}

// drained ignores the pods of DaemonSets and static pods. They stay on a drained node.
func (a *archive) drained(ctx context.Context, cluster string, now *listing, in store.Window) (map[string]bool, error) {
	if len(now.cordoned) == 0 {
		return nil, nil
	}
	metric := allPods
	if now.nodes[leaderName] {
		metric = gpuPods
	}
	pods, err := a.store.Last(ctx, a.store.Selector(metric, cluster), in)
	if err != nil || metric == allPods && len(pods) == 0 {
		return nil, err
	}
	drained := now.cordoned
	for _, pod := range pods {
		if by := pod.Labels.Get("created_by_kind"); by != "DaemonSet" && by != "Node" {
			delete(drained, pod.Labels.Get("node"))
		}
	}
	return drained, nil
}

// moved returns the silent nodes whose boards were all read on other nodes. These readings are in the hour or in the
// day after it.
func (a *archive) moved(ctx context.Context, cluster string, c *coverage, silent []string) (map[string]bool, error) {
	if len(silent) == 0 {
		return nil, nil
	}
	boards, err := a.store.BoardsOf(ctx, cluster, silent, store.Window{After: c.start.Add(-fold.Lookback), Until: c.start})
	if err != nil || len(boards) == 0 {
		return nil, err
	}
	until := c.start.Add(time.Hour + maxMove)
	if until.After(c.now) {
		until = c.now
	}
	var uuids []string
	for _, b := range boards {
		uuids = append(uuids, b.UUID)
	}
	later, err := a.store.Readings(ctx, uuids, store.Window{After: c.start, Until: until})
	if err != nil {
		return nil, err
	}
	for i := range boards {
		boards[i].Cluster = cluster
	}
	return vacated(boards, later), nil
}

func vacated(boards, later []store.Place) map[string]bool {
	nodes := make(map[string]bool)
	for _, b := range boards {
		if _, known := nodes[b.Node]; !known {
			nodes[b.Node] = true
		}
		if slices.Contains(later, b) || !slices.ContainsFunc(later, func(x store.Place) bool { return x.UUID == b.UUID }) {
			nodes[b.Node] = false
		}
	}
	return nodes
}
