package accuracy_test

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/test/accuracy"
)

var library string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "accuracy")
	if err != nil {
		panic(err)
	}
	if library, err = fakes.Compile(dir); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// length is a fifth of the simulated time in docs/energy.md, to shorten the test. Therefore the driver takes fewer
// samples, and a gap is a larger part of the time.
const length = 2 * time.Minute

func run(t *testing.T, c accuracy.Case, length time.Duration) accuracy.Result {
	t.Helper()
	r, err := accuracy.Play(t.Context(), library, c, length)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var results = make(map[played]accuracy.Result)

type played struct {
	name string
	how  simnode.Sampling
}

// runOnce runs a case only for the first test that needs its result.
func runOnce(t *testing.T, c accuracy.Case) accuracy.Result {
	t.Helper()
	key := played{c.Name, c.Scenario.Sampling}
	r, ok := results[key]
	if !ok {
		r = run(t, c, length)
		results[key] = r
	}
	return r
}

// TestCases checks that the accounts add up to the GPU's energy to the millijoule. The driver's samples may cause an
// error of at most three standard errors plus 1.5 %. The 1.5 % allow for changes within a tick, and for idle power that
// the ledger has not learned yet.
func TestCases(t *testing.T) {
	for _, c := range accuracy.Cases(length) {
		t.Run(c.Name, func(t *testing.T) {
			r := runOnce(t, c)
			gap := 0.0
			if away := c.Down.Until - c.Down.From; away > 0 {
				gap = float64(away+2*time.Second) / float64(length)
			}
			if err := r.Check(func(o accuracy.Owner) float64 { return o.Bound*3/2 + 0.015 + gap }); err != nil {
				t.Error(err)
			}
			checkRules(t, r)
		})
	}
}

// checkRules checks known errors of other rules. DCGM's process statistics charge all energy of the GPU to each process
// that is on the GPU for the whole time. The shares by SM utilisation add up to little more than the GPU's energy.
func checkRules(t *testing.T, r accuracy.Result) {
	t.Helper()
	all := 0.0
	for _, o := range r.Owners {
		if !o.Sample {
			all += o.SMShare
		}
	}
	if all < 0.8 && len(r.Owners) > 2 || all > 1.05 {
		t.Errorf("the shares of SM utilisation add up to %.2f", all)
	}
	for _, p := range r.Scenario.Pods {
		for _, o := range r.Owners {
			if n := contexts(p); o.Name == p.Name && p.From == 0 && math.Abs(o.PIDInfo-n) > 0.001*n {
				t.Errorf("process statistics give %s %.3f of the GPU's energy, once for each of %v processes", o.Name, o.PIDInfo, n)
			}
		}
	}
}

// contexts does not count the MPS server, because the server is not charged.
func contexts(p simnode.Pod) (n float64) {
	for _, q := range p.Containers[0].Processes {
		if len(q.Work) > 0 && q.Work[0].Context != simnode.MPSServer {
			n++
		}
	}
	return n
}

// TestRandomMoments plays two Slurm jobs that use an AMD GPU in turn, each in one half of every second. At all ticks, only
// the first job can work. The error must be at most five standard errors, because the AMD source reads the processes at
// random moments. Half of these readings show a process. With readings at the ticks, the error must be larger.
func TestRandomMoments(t *testing.T) {
	const half, length = 500 * time.Millisecond, 5 * length
	cases := accuracy.Cases(length)
	c := cases[slices.IndexFunc(cases, func(c accuracy.Case) bool { return strings.HasPrefix(c.Name, "AMD: Slurm jobs") })]
	for i, load := range []simnode.Pattern{{High: 50, On: half, Period: 2 * half}, {Low: 50, On: half, Period: 2 * half}} {
		processes := c.Scenario.Units[i].Processes
		processes[len(processes)-1].Work[0].Load = load
	}
	limit := func(accuracy.Owner) float64 { return 5 * math.Sqrt(0.5*0.5/(length.Seconds()/2)) }
	r := run(t, c, length)
	if err := r.Check(limit); err == nil {
		t.Error("the error is small although the processes are read at the ticks")
	}
	c.Live = true
	synctest.Test(t, func(t *testing.T) { r = run(t, c, length) })
	if err := r.Check(limit); err != nil {
		t.Error(err)
	}
}

// TestDefinitions compares the true parts with values that were calculated by hand. The idle power is 70 W. In the
// first case, the work takes 560 W for 81 % of the time and 430 W for 9 % of the time. In the second case, the work
// takes 240 W for 1 % of the time, and another holder is idle.
func TestDefinitions(t *testing.T) {
	want := map[string][2]float64{ // floor shared, user pays
		"one pod is busy 81 % of the time, the other 9 %":         {(453.6 + 35) / 562.3, (453.6 + 70*0.81 + 7./2) / 562.3},
		"one pod works 1 % of each second, the other never works": {(2.4 + 35) / 72.4, (2.4 + 70*0.01 + 69.3/2) / 72.4},
	}
	for _, c := range accuracy.Cases(length) {
		parts, chosen := want[c.Name]
		if !chosen {
			continue
		}
		delete(want, c.Name)
		r := run(t, c, 30*time.Second)
		for _, o := range r.Owners {
			if o.Name != "heavy" && o.Name != "works" {
				continue
			}
			if math.Abs(o.Truth-parts[0]) > 0.002 || math.Abs(o.UserPays-parts[1]) > 0.002 {
				t.Errorf("%s, %s: floor shared %.3f, user pays %.3f; want %.3f, %.3f", c.Name, o.Name, o.Truth, o.UserPays, parts[0], parts[1])
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("cases not found: %v", want)
	}
}

// TestUnseen checks that activity that the driver does not report causes the error in docs/energy.md.
func TestUnseen(t *testing.T) {
	worst := make(map[string]float64)
	for _, c := range accuracy.Cases(length) {
		if !c.Unseen {
			continue
		}
		r := runOnce(t, c)
		for _, o := range r.Owners {
			worst[c.Name] = max(worst[c.Name], o.Signal(), -o.Signal())
		}
	}
	if len(worst) != 1 {
		t.Errorf("%d cases: %v", len(worst), worst)
	}
	for name, e := range worst {
		if e < 0.04 || e > 0.12 {
			t.Errorf("%s: the signal's largest error is %.3f", name, e)
		}
	}
}

// TestCompare compares gpuledger with its first edition. On GPUs with idle time, gpuledger must charge less energy to
// wrong accounts. On saturated GPUs, it must not charge more to wrong accounts.
func TestCompare(t *testing.T) {
	for i, how := range accuracy.Samplings()[:3] {
		t.Run(how.Name, func(t *testing.T) {
			var all []accuracy.Result
			for _, c := range accuracy.Sampled(accuracy.Cases(length), how) {
				if c.Sampled() {
					all = append(all, runOnce(t, c))
				}
			}
			idle, busy := accuracy.Summarize(all)
			err := accuracy.Compare(idle, busy)
			t.Logf("idle %+v, saturated %+v", idle, busy)
			if i == 0 && err != nil || idle.Charged > idle.Previous {
				t.Error(err)
			}
		})
	}
}

func TestSameEveryTime(t *testing.T) {
	c := accuracy.Cases(length)[3]
	if diff := cmp.Diff(run(t, c, 20*time.Second), run(t, c, 20*time.Second)); diff != "" {
		t.Errorf("second run (-first +second):\n%s", diff)
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name string
		r    accuracy.Result
		want string
	}{
		{"fine", accuracy.Result{Energy: 5, Booked: 5, Accounts: 5, Owners: []accuracy.Owner{{Charged: 0.51, Perfect: 0.5}}}, ""},
		{"not the GPU's energy", accuracy.Result{Energy: 5, Booked: 4, Accounts: 4}, "its book has 4 mJ"},
		{"accounts do not add up", accuracy.Result{Energy: 5, Booked: 5, Accounts: 6}, "its accounts hold 6 mJ"},
		{
			"too much charged",
			accuracy.Result{Owners: []accuracy.Owner{{Name: "a", Charged: 0.53, Perfect: 0.5}}},
			"error for a is +3.00 %, must be at most 2.00 %",
		},
		{
			"too little charged",
			accuracy.Result{Owners: []accuracy.Owner{{Name: "a", Charged: 0.47, Perfect: 0.5}}},
			"error for a is -3.00 %, must be at most 2.00 %",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.r.Check(func(accuracy.Owner) float64 { return 0.02 })
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Check = %v, want %q", err, tt.want)
			}
		})
	}
}
