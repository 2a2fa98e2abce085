package main

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/fleet"
)

const (
	// past is the number of full hours in the history, before the current one.
	past = 3
	// settled is the time that the nodes run before their record is read for the history.
	settled = 10 * time.Second
)

// history returns a made-up record of the hours before the nodes booted, so that the archive has
// full hours at once. Each minute adds the energy and the time that a node has counted since its
// boot, scaled to a minute: the amounts of a GPU add up as they do on its page.
func (d *demo) history(ctx context.Context, booted time.Time) (*foldtest.Store, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(settled):
	}
	store := foldtest.NewStore()
	begin := booted.Truncate(time.Hour).Add(-past * time.Hour)
	factor := max(1, math.Round(time.Minute.Seconds()/time.Since(booted).Seconds()))
	for _, n := range d.nodes {
		page, err := record(ctx, n)
		if err != nil {
			return nil, err
		}
		sc, _ := n.Simulated() // it runs
		target := []string{"cluster", n.Cluster, "job", "gpuledger-record", "node", sc.Node, "instance", sc.Node}
		minute := 0.0
		for at := begin.Add(7 * time.Second); at.Before(booted); at = at.Add(time.Minute) {
			minute++
			store.Add(at, 1, "up", target...)
			for name, family := range page {
				for _, m := range family.Metric {
					store.Add(at, then(name, exposition.Value(m), minute*factor, begin), name, slices.Concat(target, labels(exposition.Labels(m)))...)
				}
			}
		}
	}
	return store, nil
}

// then returns the value of a series in the history. Counters are in whole millijoules and
// milliseconds.
func then(metric string, value, factor float64, begin time.Time) float64 {
	switch {
	case strings.HasSuffix(metric, "_created_timestamp_seconds"):
		return float64(begin.Unix())
	case strings.HasSuffix(metric, "_joules_total"), strings.HasSuffix(metric, "_seconds_total"):
		return math.Round(value*1000) * factor / 1000
	}
	return value
}

// record reads the page of the record.
func record(ctx context.Context, n fleet.Node) (exposition.Page, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL()+"/record", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return exposition.Parse(response.Body)
}

// labels returns labels as pairs, without those of the target.
func labels(of map[string]string) (pairs []string) {
	for name, value := range of {
		if name != "node" {
			pairs = append(pairs, name, value)
		}
	}
	return pairs
}
