package tenants_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/accuracy/tenants"
)

// TestTwinsReadTheSame checks that the driver reports equal values in both worlds of a twin. The samples of activity
// must be equal. Powers and energies may differ by less than the noise, which has a standard deviation of 1 W.
func TestTwinsReadTheSame(t *testing.T) {
	const noise = 1
	near := func(a, b float64) bool { return math.Abs(a-b) < noise }
	for _, twin := range tenants.Twins() {
		all := twin.Readings(20 * 60)
		for i := range all[0] {
			one, other := all[0][i], all[1][i]
			if diff := cmp.Diff(one, other, cmp.Comparer(near)); diff != "" {
				t.Errorf("%s, second %d (-one +other):\n%s", twin.Name, i, diff)
				break
			}
		}
	}
}

// TestTwinsDiffer compares the true parts of the victim with values that were calculated by hand. Let f be the idle
// power, u the busy share and w the power of mallory's work. If mallory does the work, the victim's part is 3/4 × f ×
// (1 − u) / (f + u × w). If the victim does the work, it is 1 − 1/4 × f × (1 − u) / (f + u × w). Additional power after
// work counts as power of the work.
func TestTwinsDiffer(t *testing.T) {
	powers := func(u, f, w float64) float64 { return 0.75 * f * (1 - u) / (f + u*w) }
	// Both GPUs with bursts draw 70 W plus 5 % of 400 W.
	bursts := 0.75 * 59.2 * (1 - 0.05) / 90
	// The work takes 100 ms or 1 ms after each of 7.2 samples per second.
	long, short := 0.72, 0.0072
	// Clients of MPS work at the same time. If each of two clients works 20 % of the time, at least one of them works
	// 36 % of the time. Each client pays half of the floor in this time.
	together := 70 * (0.36/2 + 0.64*0.75)
	want := [][2]float64{
		{powers(0.05, 70, 400), bursts},
		{powers(0.03, 70, 400), powers(0.03, 81.4, 20)},
		{powers(0.0045, 70, 590), powers(0.0045, 72.565, 20)},
		{powers(0.0099, 70, 590), powers(0.0099, 75.643, 20)},
		{powers(0.05, 70, 590), powers(0.05, 98.5, 20)},
		{powers(long, 70, 590), 1 - powers(long, 70, 590)/3},
		{powers(short, 70, 590), 1 - powers(short, 70, 590)/3},
		// The instance 4g has 40 W of the idle power of 70 W.
		{(40 + 0.2*400*4/7) / (70 + 0.2*(590*3+400*4)/7), (40 + 0.2*310) / (70 + 0.2*(590*3+400*4)/7)},
		{40. / (70 + 590.*3/7), (40 + 590.*3/7) / (70 + 590.*3/7)},
		{powers(0.2, 70, 400), 1 - powers(0.2, 70, 400)/3},
		{(together + 0.2*200) / (70 + 0.2*790), (together + 0.2*390) / (70 + 0.2*790)},
		{powers(0.03, 140, 400), powers(0.03, 151.4, 20)},
		{(2*together + 0.2*200) / (140 + 0.2*790), (2*together + 0.2*390) / (140 + 0.2*790)},
		{(2*together + 0.2*200) / (140 + 0.2*790), (2*together + 0.2*390) / (140 + 0.2*790)},
		{(70 + 0.2*200) / (140 + 0.2*495), (70 + 0.2*295) / (140 + 0.2*495)},
		{70. / (140 + 295), (70 + 295.) / (140 + 295)},
	}
	for i, twin := range tenants.Twins() {
		shares, err := twin.Victims(20 * time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for k, s := range shares {
			near(t, twin.Name+", "+twin.Descriptions[k], s.UserPays, want[i][k], 0.004)
		}
		difference := math.Abs(shares[0].UserPays - shares[1].UserPays)
		near(t, twin.Name+", charges of both worlds", shares[0].Charged, shares[1].Charged, 0.006)
		if worst := max(math.Abs(shares[0].Charged-shares[0].UserPays), math.Abs(shares[1].Charged-shares[1].UserPays)); worst < difference/2-0.004 {
			t.Errorf("%s: the ledger errs by %.1f %%, less than half of the difference of %.1f %%", twin.Name, 100*worst, 100*difference)
		}
	}
}
