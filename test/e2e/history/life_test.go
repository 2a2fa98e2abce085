//go:build e2e

package history_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/fleet"
	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// The nodes have these indexes. traveller is the position of the moved board in each node.
const (
	nodeA, nodeB, nodeC = 0, 1, 2 // A and B are in the cluster east, C is in the cluster west
	traveller           = 0
	spare               = 9 // the first machine with boards that replace the moved boards
)

// retention is the time for which exporters keep ended pods.
const (
	scrape    = time.Second
	retention = 3 * time.Second
)

type life struct {
	t        *testing.T
	fleet    *fleet.Fleet
	nodes    []fleet.Node
	booted   []*program.Program
	legs     map[int][]*leg     // the boots of each node
	servers  map[string]*server // Prometheus of each cluster
	receive  fleet.Receive
	thanos   *program.Program // program of Thanos Receive
	query    string           // URL of Thanos Query
	observer *observer
}

type server struct {
	fleet.Prometheus
	program *program.Program
}

func begin(t *testing.T) *life {
	t.Helper()
	l := &life{t: t, fleet: fleet.OpenFor(t), servers: make(map[string]*server), booted: make([]*program.Program, 3), legs: make(map[int][]*leg)}
	flags := []string{"--retention=" + retention.String(), "--collector.gauges=false"}
	for i, cluster := range []string{"east", "east", "west"} {
		l.nodes = append(l.nodes, fleet.Node{
			Cluster: cluster, Scenario: "jobs", Machine: simnode.Machine{Number: i}, Address: program.AddressFor(t), Flags: flags,
		})
	}
	var err error
	l.receive, err = fleet.NewReceive()
	check(t, err)
	l.startReceive()
	l.query, err = l.fleet.StartQuery(t.Context(), l.receive.GRPC)
	check(t, err)
	for i := range l.nodes {
		l.boot(i)
	}
	for _, cluster := range []string{"east", "west"} {
		p := fleet.Prometheus{Name: cluster, Cluster: cluster, Address: program.AddressFor(t), Scrape: scrape, RemoteWrite: l.receive.RemoteWrite()}
		for _, n := range l.nodes {
			if n.Cluster == cluster {
				p.Nodes = append(p.Nodes, n)
			}
		}
		l.servers[cluster] = &server{Prometheus: p}
		l.startPrometheus(cluster)
	}
	l.observer = watch(t, l.nodes)
	return l
}

func (l *life) boot(i int) {
	l.t.Helper()
	p, err := l.fleet.Boot(l.t.Context(), l.nodes[i])
	check(l.t, err)
	l.booted[i] = p
	first := &leg{node: l.nodes[i]}
	eventually(l.t, "the GPUs' books are open", func() (err error) {
		first.first, err = pages(l.t.Context(), l.nodes[i], 3)
		return err
	})
	l.legs[i] = append(l.legs[i], first)
}

func (l *life) remember(i int) {
	l.t.Helper()
	newest := l.legs[i][len(l.legs[i])-1]
	var err error
	newest.last, err = pages(l.t.Context(), l.nodes[i], 0)
	check(l.t, err)
}

func (l *life) startReceive() {
	l.t.Helper()
	p, err := l.fleet.StartReceive(l.t.Context(), l.receive)
	check(l.t, err)
	l.thanos = p
}

func (l *life) startPrometheus(cluster string) {
	l.t.Helper()
	s := l.servers[cluster]
	began := time.Now()
	p, err := l.fleet.StartPrometheus(l.t.Context(), s.Prometheus)
	check(l.t, err)
	s.program = p
	// Prometheus needs some seconds to discover its targets.
	eventually(l.t, cluster+" is scraped", func() error {
		now := time.Now()
		scraped, err := prometheus.Query(l.t.Context(), s.URL(), fmt.Sprintf("timestamp(up) > %d and up == 1", began.Unix()), now)
		if err == nil && len(scraped) != 2*len(s.Nodes) {
			err = fmt.Errorf("%d targets are", len(scraped))
		}
		return err
	})
}

// move moves the board traveller while both nodes are off. The first node gets a new board.
func (l *life) move(from, to int) {
	l.t.Helper()
	for _, i := range []int{from, to} {
		l.remember(i)
		l.booted[i].Stop()
	}
	l.nodes[from].Machine.Boards = map[int]simnode.Board{traveller: {Machine: spare + from, Position: traveller}}
	l.nodes[to].Machine.Boards = map[int]simnode.Board{traveller: {Machine: nodeA, Position: traveller}}
	for _, i := range []int{from, to} {
		l.nodes[i].Machine.Boot++
		l.boot(i)
	}
}

func (l *life) name(i int) string {
	sc, err := l.nodes[i].Simulated()
	check(l.t, err)
	return sc.Node
}

func (l *life) serial(i, position int) string {
	sc, err := l.nodes[i].Simulated()
	check(l.t, err)
	return sc.GPUs[position].Serial
}

func (l *life) pod(i int, name string) string {
	sc, err := l.nodes[i].Simulated()
	check(l.t, err)
	for _, p := range sc.Pods {
		if strings.HasPrefix(p.Name, name) {
			return p.Name
		}
	}
	l.t.Fatalf("%s runs no pod %s", sc.Node, name)
	return ""
}

func (l *life) ask(promql string, at time.Time) []prometheus.Sample {
	l.t.Helper()
	samples, err := prometheus.Query(l.t.Context(), l.query, promql, at)
	check(l.t, err)
	return samples
}

// During pass, only the scenario's events occur.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	case <-time.After(d):
	}
}

// observer reads the page /metrics/record of every node continuously. It stores the highest value of each counter.
type observer struct {
	mu      sync.Mutex
	highest map[series]float64
	newest  map[series]bool // series on the last page, for all nodes
}

// series identifies a series by the labels that the tests use.
type series struct{ Name, Node, Serial, Pod string }

func watch(t *testing.T, nodes []fleet.Node) *observer {
	w := &observer{highest: make(map[series]float64), newest: make(map[series]bool)}
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for _, n := range nodes {
		readers.Go(func() {
			for ctx.Err() == nil {
				w.read(ctx, n)
				select {
				case <-ctx.Done():
				case <-time.After(scrape / 5):
				}
			}
		})
	}
	t.Cleanup(func() { cancel(); readers.Wait() })
	return w
}

// A node that is down has no page.
func (w *observer) read(ctx context.Context, n fleet.Node) {
	page, err := exposition.Scrape(ctx, "http://"+n.Address+"/metrics/record")
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	sc, _ := n.Simulated() // sc.Node is correct even if there is an error
	maps.DeleteFunc(w.newest, func(s series, _ bool) bool { return s.Node == sc.Node })
	for name, mf := range page {
		for _, m := range mf.Metric {
			labels := exposition.Labels(m)
			s := series{name, labels["node"], labels["serial"], labels["pod"]}
			w.highest[s] = max(w.highest[s], exposition.Value(m))
			w.newest[s] = true
		}
	}
}

func (w *observer) highestOf(name string) map[series]float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := maps.Clone(w.highest)
	maps.DeleteFunc(found, func(s series, _ float64) bool { return s.Name != name })
	return found
}

// shows reports whether the last page of the node contained the series.
func (w *observer) shows(s series) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest[s]
}

// pages reads both pages of a node and returns them as one page. It returns an error if there are fewer than the given
// number of allocations.
func pages(ctx context.Context, n fleet.Node, allocations int) (exposition.Page, error) {
	page, err := exposition.Scrape(ctx, "http://"+n.Address+"/metrics")
	if err != nil {
		return nil, err
	}
	kept, err := exposition.Scrape(ctx, "http://"+n.Address+"/metrics/record")
	if err != nil {
		return nil, err
	}
	maps.Copy(page, kept)
	if got := len(page[allocation].GetMetric()); got < allocations {
		return nil, fmt.Errorf("the record of %s has %d allocations", n.Address, got)
	}
	return page, nil
}
