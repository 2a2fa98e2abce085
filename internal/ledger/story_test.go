package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// amounts contains the energy of a book by owner and method. Examples of keys are "train exclusive", "serve 2
// allocated" for MIG instance 2, and "idle". It also contains the total energy and the numbers of resets and rejected
// readings. It omits zero values.
type amounts map[string]gpu.Millijoules

func amountsOf(b *gpu.Book) amounts {
	got := amounts{
		"energy": b.Energy, "retired": b.Retired,
		"resets": gpu.Millijoules(b.Resets), "rejected": gpu.Millijoules(b.Rejected),
	}
	for _, a := range b.Accounts {
		pod, _, _ := strings.Cut(a.Name, "-")
		for m, e := range a.Energy {
			got[strings.Join(strings.Fields(pod+" "+a.GPUInstance+" "+gpu.Method(m).String()), " ")] = e
		}
	}
	for r, e := range b.Unattributed {
		got[gpu.Reason(r).String()] = e
	}
	for what, amount := range got {
		if amount == 0 {
			delete(got, what)
		}
	}
	return got
}

// A story is a sequence of observations of a GPU. want is the content of the GPU's book at the end.
type story struct {
	name  string
	looks []ledger.Observation
	want  amounts
}

// After every observation, the book must balance. A value may decrease only if accounts retired.
func play(t *testing.T, stories []story) {
	t.Helper()
	for _, tt := range stories {
		t.Run(tt.name, func(t *testing.T) {
			l, last := newLedger(), amounts{}
			for _, o := range tt.looks {
				now := amountsOf(ask(t, l, o))
				for what, was := range last {
					if now[what] < was && now["retired"] == last["retired"] {
						t.Errorf("%s decreased from %d to %d mJ at %v", what, was, now[what], o.At.Boot)
					}
				}
				last = now
			}
			if diff := cmp.Diff(tt.want, last); diff != "" {
				t.Errorf("amounts (-want +got):\n%s", diff)
			}
		})
	}
}

func count(o ledger.Observation, mJ gpu.Millijoules) ledger.Observation {
	o.Energy = &mJ
	return o
}

func unread(o ledger.Observation) ledger.Observation {
	o.Energy = nil
	return o
}

// The process may be missing from the observation's list of processes.
func saw(o ledger.Observation, p *gpu.Process) ledger.Observation {
	o.Activity = []ledger.Activity{worked(p, 100)}
	return o
}

func stepped(o ledger.Observation, by time.Duration) ledger.Observation {
	o.At.Wall = o.At.Wall.Add(by)
	return o
}
