package accuracy

import (
	"fmt"
	"math"
	"strings"

	"github.com/gpuledger/gpuledger/test/accuracy/tenants"
	"github.com/gpuledger/gpuledger/test/markdown"
)

// A case with more owners than maxRows does not have a row for each owner.
const maxRows = 4

// Table formats results as a table, in percent of the GPU's energy. The errors of other rules are differences from the
// truth with a shared floor.
func Table(results []Result) *markdown.Table {
	t := markdown.NewTable("owner", "true part, user pays", "true part, floor shared", "charged by gpuledger",
		"error, user pays", "error, floor shared", "error of the model", "error of the signal", "± 2σ of the samples",
		"error of the first edition", "error of SM share", "error of SM share, 15 s", "error of pid info")
	for _, r := range results {
		t.Add("**" + r.Name + "**")
		if len(r.Owners) <= maxRows {
			for _, o := range r.Owners {
				t.Add(r.cells(&o)...)
			}
		}
		t.Add("*energy in wrong accounts*", "", "", "", percent(r.Wrong(Charged, UserPays)), percent(r.Wrong(Charged, FloorShared)), "", "", "",
			r.unlessMIG(percent(r.Wrong(Previous, FloorShared))),
			percent(r.Wrong(SMShare, FloorShared)), percent(r.Wrong(Scraped, FloorShared)), percent(r.Wrong(PIDInfo, FloorShared)))
	}
	return t
}

func (r *Result) cells(o *Owner) []string {
	bound := "–"
	if o.Bound > 0 {
		bound = percent(o.Bound)
	}
	return []string{
		o.Name, percent(o.UserPays), percent(o.Truth), percent(o.Charged),
		signed(o.Charged - o.UserPays), signed(o.Charged - o.Truth), signed(o.Model()), signed(o.Signal()), bound,
		r.unlessMIG(signed(o.Previous - o.Truth)), signed(o.SMShare - o.Truth), signed(o.Scraped - o.Truth), signed(o.PIDInfo - o.Truth),
	}
}

// unlessMIG returns a dash instead of the cell for a GPU in MIG mode, because the rule does not support MIG.
func (r *Result) unlessMIG(cell string) string {
	if r.Scenario.GPUs[0].MIG != nil {
		return "–"
	}
	return cell
}

// A Summary contains the share of energy in wrong accounts, averaged over cases. UserPays is gpuledger's share if the
// users pay the floor. The other shares use the truth with a shared floor.
type Summary struct {
	Cases                                         int
	UserPays, Charged, Previous, SMShare, Scraped float64
	// Worst is gpuledger's largest error, first if the users pay the floor, then with a shared floor.
	Worst [2]Extreme
}

// An Extreme is the largest error of any owner.
type Extreme struct {
	Case, Owner string
	Error       float64
}

func (s *Summary) add(r *Result) {
	s.Cases++
	n := float64(s.Cases)
	s.UserPays += (r.Wrong(Charged, UserPays) - s.UserPays) / n
	s.Charged += (r.Wrong(Charged, FloorShared) - s.Charged) / n
	s.Previous += (r.Wrong(Previous, FloorShared) - s.Previous) / n
	s.SMShare += (r.Wrong(SMShare, FloorShared) - s.SMShare) / n
	s.Scraped += (r.Wrong(Scraped, FloorShared) - s.Scraped) / n
	for i, truth := range []func(Owner) float64{UserPays, FloorShared} {
		for _, o := range r.Owners {
			if e := o.Charged - truth(o); math.Abs(e) > math.Abs(s.Worst[i].Error) {
				s.Worst[i] = Extreme{r.Name, o.Name, e}
			}
		}
	}
}

// A GPU with a smaller share of idle time counts as saturated.
const saturated = 0.15

// Summarize returns the averages over the cases with idle time and over the saturated cases. It omits GPUs without
// samples of processes, because the rules cannot be compared without them.
func Summarize(results []Result) (idle, busy Summary) {
	for i := range results {
		switch r := &results[i]; {
		case !r.Sampled():
		case r.Slack > saturated:
			idle.add(r)
		default:
			busy.add(r)
		}
	}
	return idle, busy
}

// Compare returns an error if a summary exceeds gpuledger's limits.
func Compare(idle, busy Summary) error {
	switch {
	case idle.Cases == 0 || busy.Cases == 0:
		return fmt.Errorf("%d cases with idle time and %d saturated cases: need both to compare", idle.Cases, busy.Cases)
	case idle.Charged > 0.6*idle.Previous:
		return fmt.Errorf("with idle time %s %% are in wrong accounts, by the first edition's rule %s %%", percent(idle.Charged), percent(idle.Previous))
	case busy.Charged > busy.Previous+0.005:
		return fmt.Errorf("on saturated GPUs %s %% of the energy is in wrong accounts, with the first edition's rule %s %%", percent(busy.Charged), percent(busy.Previous))
	}
	return nil
}

// A Run contains the results of all cases for one sampling.
type Run struct {
	Name    string
	Results []Result
}

// Ranges returns a table of the energy in wrong accounts for each sampling.
func Ranges(runs []Run) *markdown.Table {
	t := markdown.NewTable("how the driver takes samples",
		"idle time: gpuledger, user pays", "largest error", "idle time: gpuledger, floor shared", "largest error",
		"idle time: first edition", "idle time: SM share", "idle time: SM share, 15 s",
		"saturated: gpuledger, user pays", "largest error", "saturated: gpuledger, floor shared", "largest error",
		"saturated: first edition", "saturated: SM share", "saturated: SM share, 15 s")
	for _, run := range runs {
		idle, busy := Summarize(run.Results)
		row := []string{run.Name}
		for _, s := range []Summary{idle, busy} {
			row = append(row, percent(s.UserPays), s.Worst[0].String(), percent(s.Charged), s.Worst[1].String(), percent(s.Previous), percent(s.SMShare), percent(s.Scraped))
		}
		t.Add(row...)
	}
	return t
}

// Worst returns a table with the mean energy in wrong accounts and the worst account, for both truths and over all
// samplings. It has rows for cases with idle time, for saturated cases and for light loads.
func Worst(runs []Run, light []tenants.Row) *markdown.Table {
	t := markdown.NewTable("", "user pays: in wrong accounts", "largest error", "floor shared: in wrong accounts", "largest error")
	var results []Result
	for _, run := range runs {
		results = append(results, run.Results...)
	}
	idle, busy := Summarize(results)
	for _, row := range []struct {
		name string
		Summary
	}{{"cases with over 15 % idle time", idle}, {"saturated cases", busy}} {
		t.Add(row.name, percent(row.UserPays), row.Summary.Worst[0].String(), percent(row.Charged), row.Summary.Worst[1].String())
	}
	total := tenants.Total(light)
	t.Add("light loads", percent(total.By[1].Wrong), total.By[1].String(), percent(total.By[0].Wrong), total.By[0].String())
	return t
}

func (e Extreme) String() string {
	return fmt.Sprintf("%s for “%s” in the case “%s”", signed(e.Error), e.Owner, e.Case)
}

func percent(share float64) string { return fmt.Sprintf("%.1f", 100*share) }

func signed(share float64) string {
	if s := fmt.Sprintf("%+.1f", 100*share); s != "+0.0" && s != "-0.0" {
		return strings.Replace(s, "-", "−", 1)
	}
	return "0.0"
}
