//go:build e2e

package history_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/fleet"
	"github.com/gpuledger/gpuledger/test/promdoc"
)

// The minutes of the tape. A tray was there for an hour, nine days before everything
// else; a node needs ten minutes to boot.
const (
	oldTray    = -9 * 24 * 60
	firstMove  = 20 * 60
	secondMove = 36 * 60
	death      = 45 * 60
	end        = 52 * 60
	booting    = 10
	day        = 24 * 60
)

// record puts the legs of a life on a tape.
func (l *life) record(old *leg) *tape {
	p := &tape{began: time.Now().Truncate(time.Hour).Add(-(end + 120) * time.Minute), lines: make(map[string]*line)}
	old.from, old.to = oldTray, oldTray+60
	p.play(l.t, old)
	boots := map[int][][2]int{ // of each node
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

// tray is a tray of a rack that served for a while.
func tray(t *testing.T, f *fleet.Fleet) *leg {
	t.Helper()
	n := fleet.Node{Cluster: "west", Scenario: "gb200", Machine: simnode.Machine{Number: 3}, Address: address(t)}
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

// store has a Prometheus of each cluster evaluate the rules over the tape, and puts
// both into a bucket. It returns the URL of a Query over it.
func (p *tape) store(t *testing.T, f *fleet.Fleet) string {
	t.Helper()
	blocks := make(map[string]string)
	for _, cluster := range []string{"east", "west"} {
		file, name := f.Path(cluster+".om"), "history-"+cluster
		p.write(t, cluster, file)
		blocks[cluster] = f.Path(name)
		check(t, f.Blocks(t.Context(), file, blocks[cluster]))
		p.evaluate(t, f, name, "placement.yaml", oldTray)
		p.evaluate(t, f, name, "energy.yaml", 0)
		// A rule that reads another finds it in the blocks, the second time.
		p.evaluate(t, f, name, "energy.yaml", 0)
	}
	grpc, err := f.StartStore(t.Context(), blocks)
	check(t, err)
	url, err := f.StartQuery(t.Context(), grpc)
	check(t, err)
	eventually(t, "the Query has the blocks", func() error {
		_, err := fleet.Query(t.Context(), url, "vector(1)", p.at(end))
		return err
	})
	return url
}

// evaluate evaluates rules in a Prometheus over the history of a cluster, from a minute
// on, and keeps the results there.
func (p *tape) evaluate(t *testing.T, f *fleet.Fleet, name, rules string, from int) {
	t.Helper()
	server := fleet.Prometheus{Name: name, Address: address(t), Scrape: scrape}
	program, err := f.StartPrometheus(t.Context(), server)
	check(t, err)
	defer program.Stop()
	file := filepath.Join("..", "..", "..", "dashboards", "rules", rules)
	check(t, f.Backfill(t.Context(), server, p.at(from), p.at(end+60), file, f.Path(name)))
}

// answer is what a query must give: which labels tell its samples apart, and their
// values.
type answer struct {
	by   []string
	want map[string]float64
	off  float64 // by which part a value may be off
	none bool    // nothing is to be found
}

func (a answer) check(t *testing.T, got []fleet.Sample) {
	t.Helper()
	seen := make(map[string]bool)
	for _, s := range got {
		var parts []string
		for _, name := range a.by {
			parts = append(parts, s.Labels[name])
		}
		key := strings.Join(parts, " ")
		want, ok := a.want[key]
		switch {
		case !ok:
			t.Errorf("unexpected: %v = %v", s.Labels, s.Value)
		case seen[key]:
			t.Errorf("%q twice: %v", key, s.Labels)
		case math.Abs(s.Value-want) > math.Abs(want)*a.off+1e-3:
			t.Errorf("%q is %v, want %v", key, s.Value, want)
		}
		seen[key] = true
	}
	for key, want := range a.want {
		if !seen[key] {
			t.Errorf("%q is missing, want %v", key, want)
		}
	}
}

// askAll asks every question of the history, and every answer is to a question.
func (p *tape) askAll(t *testing.T, url string, variables map[string]string) {
	doc, err := promdoc.Read("../../../docs/queries.md")
	check(t, err)
	answers := p.answers(variables["serial"], variables["chassis"])
	for _, q := range doc.Part("Boards and history") {
		want, ok := answers[q.Title]
		if !ok {
			t.Errorf("no answer is known to %q", q.Title)
			continue
		}
		delete(answers, q.Title)
		t.Run(q.Title, func(t *testing.T) {
			if len(want.want) == 0 && !want.none {
				t.Fatal("the history has nothing to find")
			}
			text, err := q.Fill(variables)
			check(t, err)
			got, err := fleet.Query(t.Context(), url, text, p.at(end), "max_source_resolution", "0s")
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			want.check(t, got)
		})
	}
	for title := range answers {
		t.Errorf("docs/queries.md does not ask %q", title)
	}
}
