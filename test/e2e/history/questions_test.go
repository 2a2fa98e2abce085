//go:build e2e

package history_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/fleet"
	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/promdoc"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// These are the times of the events in minutes. A tray was present for an hour, nine days before the other nodes. A
// node takes ten minutes to boot.
const (
	oldTray    = -9 * 24 * 60
	firstMove  = 20 * 60
	secondMove = 36 * 60
	death      = 45 * 60
	end        = 52 * 60
	booting    = 10
	day        = 24 * 60
)

// record copies the recorded boots into a history in slow motion.
func (l *life) record(old *leg) *tape {
	p := &tape{began: time.Now().Truncate(time.Hour).Add(-(end + 120) * time.Minute), lines: make(map[string]*line)}
	old.from, old.to = oldTray, oldTray+60
	p.play(l.t, old)
	boots := map[int][][2]int{ // first and last minute of each boot, by node
		nodeA: {{0, firstMove}, {firstMove + booting, death}},
		nodeB: {{0, firstMove}, {firstMove + booting, secondMove}, {secondMove + booting, end + 60}},
		nodeC: {{0, secondMove}, {secondMove + booting, end + 60}},
	}
	for i, legs := range l.legs {
		for n, leg := range legs {
			leg.from, leg.to = boots[i][n][0], boots[i][n][1]
			p.play(l.t, leg)
		}
	}
	p.beside()
	return p
}

// tray boots a tray that was in a rack only for a while.
func tray(t *testing.T, f *fleet.Fleet) *leg {
	t.Helper()
	n := fleet.Node{Cluster: "west", Scenario: "gb200", Machine: simnode.Machine{Number: 3}, Address: program.AddressFor(t)}
	p, err := f.Boot(t.Context(), n)
	check(t, err)
	l := &leg{node: n}
	eventually(t, "the tray has pods", func() (err error) {
		l.first, err = pages(t.Context(), n, 4)
		return err
	})
	pass(t, 2*scrape)
	l.last, err = pages(t.Context(), n, 4)
	check(t, err)
	p.Stop()
	return l
}

// store loads the history into a Prometheus for each cluster and evaluates the rules. Then it uploads the blocks of
// both servers to a bucket. It returns the URL of a Thanos Query that reads the bucket.
func (p *tape) store(t *testing.T, f *fleet.Fleet) string {
	t.Helper()
	blocks := make(map[string]string)
	for _, cluster := range []string{"east", "west"} {
		s := f.Server("history-"+cluster, program.AddressFor(t))
		blocks[cluster] = f.Path(s.Name)
		check(t, s.Load(t.Context(), p.openMetrics(cluster)))
		p.evaluate(t, s, "placement.yaml", oldTray)
		p.evaluate(t, s, "energy.yaml", 0)
		// A rule that reads the results of another rule finds them in the blocks only at the second evaluation.
		p.evaluate(t, s, "energy.yaml", 0)
	}
	grpc, err := f.StartStore(t.Context(), blocks)
	check(t, err)
	url, err := f.StartQuery(t.Context(), grpc)
	check(t, err)
	eventually(t, "Thanos Query has the blocks", func() error {
		_, err := prometheus.Query(t.Context(), url, "vector(1)", p.at(end))
		return err
	})
	return url
}

func (p *tape) evaluate(t *testing.T, s prometheus.Server, rules string, from int) {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("..", "..", "..", "dashboards", "rules", rules))
	check(t, err)
	check(t, s.Evaluate(t.Context(), file, p.at(from), p.at(end+60)))
}

// The query with this title returns no result if the samples are correct.
const nothing = "Pods with several series on a GPU"

// askAll runs every documented query about the history. Every expected answer must have a query.
func (p *tape) askAll(t *testing.T, url string, variables map[string]string) {
	doc, err := promdoc.Read("../../../docs/queries.md")
	check(t, err)
	answers := p.answers(variables["serial"], variables["chassis"])
	for _, q := range doc.Part("Boards and history") {
		want, ok := answers[q.Title]
		if !ok {
			t.Errorf("no expected answer to %q", q.Title)
			continue
		}
		delete(answers, q.Title)
		t.Run(q.Title, func(t *testing.T) {
			if len(want.Want) == 0 && q.Title != nothing {
				t.Fatal("no expected result in the history")
			}
			text, err := q.Fill(variables)
			check(t, err)
			got, err := prometheus.Query(t.Context(), url, text, p.at(end), "max_source_resolution", "0s")
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			want.Off = 1e-3
			for _, wrong := range want.Differences(got) {
				t.Error(wrong)
			}
		})
	}
	for title := range answers {
		t.Errorf("docs/queries.md lacks the question %q", title)
	}
}
