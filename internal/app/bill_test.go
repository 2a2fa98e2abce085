package app_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/status"
)

const (
	billPage  = "../../docs/bill.md"
	billBegin = "<!-- go test ./internal/app -run=TestBill -update: begin -->\n"
	billEnd   = "<!-- end -->"
)

// TestBill computes the charges in docs/bill.md from the inputs on the page, as a reader would. Each result must equal
// the exporter's charge to the millijoule.
func TestBill(t *testing.T) {
	b := play(t, "timeslice", false)
	s := b.node.Sampler.Latest()
	g := &s.GPUs[0]
	var bill strings.Builder
	all := slices.Collect(g.Intervals)
	writeAccounts(&bill, g.Book)
	writeInterval(t, &bill, &all[len(all)-1])
	writeSums(t, &bill, s, g)

	page, err := os.ReadFile(billPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(page), billBegin)
	old, after, found := strings.Cut(rest, billEnd)
	if !found {
		t.Fatalf("%s has no line %q", billPage, billEnd)
	}
	if f := flag.Lookup("update"); f.Value.String() == "true" {
		if err := os.WriteFile(billPage, []byte(before+billBegin+bill.String()+billEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(bill.String(), old); diff != "" {
		t.Errorf("%s (-scenario +page):\n%s", billPage, diff)
	}
}

func row(b *strings.Builder, cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }

func mJ(e gpu.Millijoules) string { return fmt.Sprintf("%.3f", e.Joules()) }

func writeAccounts(b *strings.Builder, book *gpu.Book) {
	fmt.Fprintf(b, "\n## The bill\n\nThe GPU counted %s J. The table shows the charges of all pods, in joules:\n\n", mJ(book.Energy))
	row(b, "pod", "shared", "allocated", "sum")
	b.WriteString("|---|--:|--:|--:|\n")
	for i := range book.Accounts {
		a := &book.Accounts[i]
		row(b, a.Name, mJ(a.Energy[gpu.Shared]), mJ(a.Energy[gpu.Allocated]), mJ(a.Energy.Sum()))
	}
	row(b, "**all pods**", "", "", mJ(book.Energy))
}

func writeInterval(t *testing.T, b *strings.Builder, iv *gpu.Interval) {
	t.Helper()
	var replicas float64
	var activity time.Duration
	for _, c := range iv.Charges {
		replicas, activity = replicas+c.Holding, activity+c.Activity
	}
	took := iv.To.Sub(iv.From).Seconds()
	share := activity.Seconds() / took
	idle := gpu.Millijoules(math.Round(1000 * float64(iv.IdlePower.Power) * (1 - share) * took))
	fmt.Fprintf(b, "\n## One interval\n\nThe last interval began at %s and took %.3f s:\n\n", iv.From.Wall.Format(time.TimeOnly), took)
	fmt.Fprintf(b, "- The counter increased by %s J.\n", mJ(iv.Energy))
	fmt.Fprintf(b, "- The samples show %.6f s of work, so the busy share is %.4f.\n", activity.Seconds(), share)
	fmt.Fprintf(b, "- The idle power is %.4f W (source: `%s`).\n", float64(iv.IdlePower.Power), iv.IdlePower.Source)
	fmt.Fprintf(b, "- The pods hold %.0f replicas.\n", replicas)
	fmt.Fprintf(b, "\nThe idle part is idle power times idle time, and the busy part is the rest:\n\n```\nidle part = %.4f W × (1 − %.4f) × %.3f s = %s J\nbusy part = %s J − %s J = %s J\n```\n\n",
		float64(iv.IdlePower.Power), share, took, mJ(idle), mJ(iv.Energy), mJ(idle), mJ(iv.Energy-idle))
	b.WriteString("The ledger divides the idle part among the pods in proportion to their replicas, and the busy part in proportion to their activity:\n\n")
	row(b, "pod", "replicas", "idle part, J", "activity, s", "busy part, J", "charge, J")
	b.WriteString("|---|--:|--:|--:|--:|--:|\n")
	var idles, busies gpu.Millijoules
	for i := range iv.Charges {
		c := &iv.Charges[i]
		ownIdle := float64(idle) * c.Holding / replicas
		ownBusy := float64(iv.Energy-idle) * float64(c.Activity) / float64(activity)
		if math.Abs(ownIdle-float64(c.Idle)) >= 1 || math.Abs(ownBusy-float64(c.Energy[gpu.Shared])) >= 1 || c.Energy[gpu.Allocated] != c.Idle {
			t.Errorf("%s is charged %d mJ idle and %v mJ in total; computed %f mJ and %f mJ", c.Name, c.Idle, c.Energy, ownIdle, ownBusy)
		}
		idles, busies = idles+c.Idle, busies+c.Energy[gpu.Shared]
		row(b, c.Name,
			fmt.Sprintf("%.0f of %.0f", c.Holding, replicas), mJ(c.Idle),
			fmt.Sprintf("%.6f of %.6f", c.Activity.Seconds(), activity.Seconds()), mJ(c.Energy[gpu.Shared]), mJ(c.Energy.Sum()))
	}
	if idles != idle || busies != iv.Energy-idle {
		t.Errorf("the charges sum to %d mJ idle and %d mJ busy; computed %d and %d", idles, busies, idle, iv.Energy-idle)
	}
	row(b, "**all pods**", fmt.Sprintf("%.0f", replicas), mJ(idles), fmt.Sprintf("%.6f", activity.Seconds()), mJ(busies), mJ(iv.Energy))
}

func writeSums(t *testing.T, b *strings.Builder, s *gpu.Snapshot, g *gpu.GPU) {
	t.Helper()
	e, err := status.Explain(s, status.Query{GPU: "0", Owner: "team-a/tuner", Since: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(g.Book.Accounts, func(a gpu.Account) bool { return a.Name == "tuner" })
	var shared, allocated gpu.Millijoules
	for _, at := range e.Times {
		shared, allocated = shared+at.Charged.Shared, allocated+at.Charged.Allocated
	}
	if got := (gpu.ByMethod{0, shared, allocated}); got != g.Book.Accounts[i].Energy {
		t.Errorf("the intervals sum to %v, but the account has %v", got, g.Book.Accounts[i].Energy)
	}
	fmt.Fprintf(b, "\n## The sum\n\nIn all %d intervals, `tuner` was charged %s J `allocated` and %s J `shared`. The sum is %s J, as in the bill. The other\npods were charged %s J, and no energy is unattributed. So the sum of all charges is %s J, which is the energy that the GPU\ncounted.\n\n",
		e.Total.Intervals, mJ(allocated), mJ(shared), mJ(shared+allocated), mJ(e.Others), mJ(e.Others+shared+allocated))
	if e.Others+shared+allocated != g.Book.Energy {
		t.Errorf("all charges sum to %d mJ, but the GPU counted %d mJ", e.Others+shared+allocated, g.Book.Energy)
	}
}
