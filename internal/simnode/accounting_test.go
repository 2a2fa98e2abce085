package simnode_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The accounts must contain the number of samples and the sums of every process. They must change only once a second.
func TestAccounting(t *testing.T) {
	n := open(t, "accounting")
	run(t, n, 0, 9900*time.Millisecond, 100*time.Millisecond)
	before := driverState(t, n)
	if g := before["gpu"][1]; g["accounting"] != "1" {
		t.Errorf("GPU without accounting: %v", g)
	}
	run(t, n, 9900*time.Millisecond, 10*time.Second, 100*time.Millisecond)
	state := driverState(t, n)
	sums, ring := make(map[string]int64), make(map[string]int64)
	for _, a := range state["account"] {
		if a["gpu"] != state["gpu"][1]["uuid"] {
			continue
		}
		sums[a["pid"]] = number(t, a["gr"])
		if a["count"] != "72" || a["running"] != "1" || number(t, a["start"]) > start.Wall.UnixMicro() {
			t.Errorf("account: %v", a)
		}
	}
	for _, s := range state["sample"] { // the ring contains all samples of the ten seconds
		if s["gpu"] == state["gpu"][1]["uuid"] {
			ring[s["pid"]] += 100 * number(t, s["sm"])
		}
	}
	if diff := cmp.Diff(ring, sums); diff != "" || len(sums) != 2 {
		t.Errorf("sums (-ring +accounts):\n%s", diff)
	}
	run(t, n, 10*time.Second, 10900*time.Millisecond, 100*time.Millisecond)
	if diff := cmp.Diff(state["account"], driverState(t, n)["account"]); diff != "" {
		t.Errorf("accounts changed within a second:\n%s", diff)
	}
	if cmp.Equal(before["account"], state["account"]) {
		t.Error("accounts did not change after a second")
	}
}
