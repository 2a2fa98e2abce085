package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/status"
	"github.com/gpuledger/gpuledger/test/golden"
)

// explained checks for every GPU that the stored intervals add up to the GPU's accounts. It compares the sums by owner
// and method, by reason of unattributed energy, and in total. This holds only if the exporter still has all intervals
// and all accounts.
func (b *bench) explained() {
	b.t.Helper()
	type sums struct {
		Energy       gpu.Millijoules
		Accounts     map[gpu.AccountKey]gpu.ByMethod
		Idle         map[gpu.AccountKey]gpu.Millijoules
		Unattributed [gpu.NumReasons]gpu.Millijoules
	}
	for _, g := range b.node.Sampler.Latest().GPUs {
		if g.Book == nil {
			continue
		}
		want := sums{g.Book.Energy, map[gpu.AccountKey]gpu.ByMethod{}, map[gpu.AccountKey]gpu.Millijoules{}, g.Book.Unattributed}
		got := sums{Accounts: map[gpu.AccountKey]gpu.ByMethod{}, Idle: map[gpu.AccountKey]gpu.Millijoules{}}
		for _, a := range g.Book.Accounts {
			if a.Energy.Sum() > 0 {
				want.Accounts[a.AccountKey], want.Idle[a.AccountKey] = a.Energy, a.Idle
			}
		}
		for iv := range g.Intervals {
			got.Energy += iv.Energy
			for _, c := range iv.Charges {
				if c.Kind.HasAccount() && c.Energy.Sum() > 0 {
					got.Accounts[c.AccountKey] = got.Accounts[c.AccountKey].Plus(c.Energy)
					got.Idle[c.AccountKey] += c.Idle
				}
			}
			for r, e := range iv.Unattributed {
				got.Unattributed[r] += e
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			b.t.Errorf("%s: the intervals do not sum to the book (-book +intervals):\n%s", g.UUID, diff)
		}
	}
}

// TestExplain compares the sums in the output of gpuledger explain with the charges on the pages. The owners are on a
// shared GPU and on a MIG instance.
func TestExplain(t *testing.T) {
	for _, tt := range []struct{ scenario, gpu, owner string }{
		{"timeslice", "0", "team-a/tuner"},
		{"mig", "0", ""},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			b := play(t, tt.scenario, false)
			s := b.node.Sampler.Latest()
			account := &s.GPUs[0].Book.Accounts[0]
			for i := range s.GPUs[0].Book.Accounts {
				if a := &s.GPUs[0].Book.Accounts[i]; tt.owner == a.Scope+"/"+a.Name {
					account = a
				}
			}
			name := account.Scope + "/" + account.Name + "/" + account.Part
			e, err := status.Explain(s, status.Query{GPU: tt.gpu, Owner: name, Since: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			if got := (gpu.ByMethod{e.Total.Charged.Exclusive, e.Total.Charged.Shared, e.Total.Charged.Allocated}); got != account.Energy || e.Total.OwnIdle != account.Idle {
				t.Errorf("charged %v, idle %d; want %v, %d", got, e.Total.OwnIdle, account.Energy, account.Idle)
			}
			var text strings.Builder
			if err := status.WriteExplanation(&text, e); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, tt.scenario+".explain.txt", []byte(text.String()))
		})
	}
}
