package ledger_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

func documented(t *testing.T, pattern string) []float64 {
	t.Helper()
	page, err := os.ReadFile("../../docs/energy.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(page)
	if found == nil {
		t.Fatalf("docs/energy.md does not match %q", pattern)
	}
	var numbers []float64
	for _, text := range found[1:] {
		n, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// TestOutageExample compares the ledger with the worked example of a kubelet outage in docs/energy.md.
func TestOutageExample(t *testing.T) {
	const n = `([\d.]+)`
	story := documented(t, `\(`+n+` W idle\) for `+n+` s\. The kubelet does not respond for `+n+` s of`)
	idle, seconds, silent := story[0], int(story[1]), int(story[2])
	total := documented(t, `The GPU uses `+n+` kJ\.`)[0]
	part := documented(t, n+` W × `+n+` s = `+n+` kJ`)
	if part[0] != idle || part[1]*2 != story[1] || math.Abs(part[0]*part[1]/1000-part[2]) > 0.05 {
		t.Errorf("idle part of the page: %v", part)
	}

	a, b, c := process(21, in(train)), process(22, in(serve)), gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: "c", UID: "uid-c", Part: "main"}
	processes := []*gpu.Process{a, b}
	const before = 30 // seconds at rest, from which the ledger learns the idle power
	l := newLedger()
	counter, start := 0.0, gpu.Book{}
	for s := range before + seconds + 1 {
		o := look(float64(s), processes, holds(train, 3), holds(serve, 3), holds(c, 3))
		if from := before + 40; s >= from && s < from+silent {
			o.Allocations, o.AllocationsKnown = nil, false
			o.Alive = map[string]bool{train.UID: true, serve.UID: true, c.UID: true}
		}
		o.Utilization = new(0.0)
		if s > before {
			counter += total * 1e6 / float64(seconds)
			o.Utilization = new(0.5)
			o = active(o, worked(b, 500))
		} else {
			counter += idle * 1000
		}
		book := ask(t, l, count(o, gpu.Millijoules(counter)))
		if s == before {
			start = l.State().Books[uuid].Book
			if math.Abs(float64(book.IdlePower)-idle) > 0.1 {
				t.Fatalf("learned %v W of idle power, want %v", book.IdlePower, idle)
			}
		}
	}
	end := bookOf(l, uuid)
	rows := map[string][]float64{
		serve.Name: documented(t, `\| B \| `+n+` s \| `+n+` s \| `+n+` kJ .allocated., `+n+` kJ .shared. \|`),
		train.Name: append(documented(t, `\| A, C \| `+n+` s \| `+n+` s \| `+n+` kJ .allocated. \|`), 0),
	}
	rows[c.Name] = rows[train.Name]
	for _, owner := range []gpu.Owner{train, serve, c} {
		got, was := find(end, gpu.AccountKey{Owner: owner}), find(&start, gpu.AccountKey{Owner: owner})
		for i, value := range []float64{
			(got.Allocated - was.Allocated).Seconds(), (got.Busy - was.Busy).Seconds(),
			float64(got.Energy[gpu.Allocated]-was.Energy[gpu.Allocated]) / 1e6, float64(got.Energy[gpu.Shared]-was.Energy[gpu.Shared]) / 1e6,
		} {
			if want := rows[owner.Name][i]; math.Abs(value-want) > 0.05 {
				t.Errorf("%s: value %d is %.3f, the page has %v", owner.Name, i, value, want)
			}
		}
		if got.Energy[gpu.Exclusive] != 0 {
			t.Errorf("%s has exclusive energy", owner.Name)
		}
	}
}
