package archive

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
)

func (w *world) once(sink sinks.Place, args ...string) error {
	w.Helper()
	a := w.archive(append([]string{"once"}, args...), sink)
	a.filers[0].add(w.begin, w.begin.Add(4*time.Hour), time.Now())
	return a.filers[0].once(w.Context())
}

// TestOtherLabel uses --cluster. The archive must ignore series with a different cluster label.
func TestOtherLabel(t *testing.T) {
	simulate(t, func(w *world) {
		d, dir := w.folder("folder")
		err := w.once(d, "--cluster=example")
		for _, text := range []string{`"east, west"`, `"example"`, "leave out --cluster", "rename-cluster"} {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("the error does not contain %s: %v", text, err)
			}
		}
		if err := w.once(d, "--cluster=east"); err == nil || !strings.Contains(err.Error(), `"west"`) {
			t.Errorf("west is filed as east: %v", err)
		}
		for _, cluster := range []string{"example", "east"} {
			if filed := w.filed(dir, cluster); len(filed) > 0 {
				t.Errorf("%s has the hours %v", cluster, filed)
			}
		}
		if err := w.once(d); err != nil {
			t.Error(err)
		}
		if filed := w.filed(dir, "east"); len(filed) != 5 {
			t.Errorf("east has the hours %v", filed)
		}
	})
}

func TestTwoClusters(t *testing.T) {
	simulate(t, func(w *world) {
		d, dir := w.folder("folder")
		check(t, w.once(d))
		w.samples = foldtest.NewStore() // the same fleet without labels, and with another name
		foldtest.NewFleet(w.samples, w.begin, 0, 2).Run(25 * 60)
		w.api = foldtest.API{Store: w.samples}
		if err := w.once(d, "--cluster=example"); err != nil {
			t.Error(err)
		}
		if n := w.log.logged("is filed for cluster east at the same time"); n != 5 {
			t.Errorf("%d hours are refused, want 5", n)
		}
		if filed := w.filed(dir, "example"); len(filed) > 0 {
			t.Errorf("example has the hours %v", filed)
		}
	})
}

// TestRenamed adds the label cluster to a fleet, and runs rename-cluster on the same day. The archive then reads hours
// again, now from series with the label. It must not archive these hours twice.
func TestRenamed(t *testing.T) {
	simulate(t, func(w *world) {
		plain, labelled := foldtest.NewStore(), foldtest.NewStore()
		foldtest.NewFleet(plain, w.begin, 0, 2).Run(25 * 60)
		foldtest.NewFleet(labelled, w.begin, 0, 2, "cluster", "east").Run(25 * 60)
		w.api = foldtest.API{Store: plain}
		d, dir := w.folder("folder")
		check(t, w.once(d, "--cluster=example"))
		w.api = foldtest.API{Store: labelled}
		if err := w.once(d, "--cluster=example", "--again"); err == nil || !strings.Contains(err.Error(), "rename-cluster") {
			t.Errorf("with the label: %v", err)
		}
		c, err := Parse([]string{"rename-cluster", "example", "east", "--folder=" + dir})
		check(t, err)
		var out strings.Builder
		if err := Rename(w.Context(), c, &out, slog.New(slog.DiscardHandler)); err != nil || out.String() != "folder: 5 hours of example are filed as east\n" {
			t.Errorf("%q, error %v", out.String(), err)
		}
		if err := w.once(d, "--again"); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(first(5), w.filed(dir, "east")); diff != "" {
			t.Errorf("revisions (-want +got):\n%s", diff)
		}
		if filed := w.filed(dir, "example"); len(filed) > 0 {
			t.Errorf("example has the hours %v", filed)
		}
	})
}

func TestRenameFlags(t *testing.T) {
	for text, args := range map[string][]string{
		"the old and the new name": {"example", "--folder=x"}, "must be valid and differ": {"east", "east", "--folder=x"}, "a sink that keeps hours": {"a", "b", "--stdout=json"},
	} {
		if _, err := Parse(append([]string{"rename-cluster"}, args...)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// Within one hour, a board moves to another cluster. Both clusters must contain the board in this hour.
func TestMovedInAnHour(t *testing.T) {
	simulate(t, func(w *world) {
		w.moving()
		d, dir := w.folder("folder")
		if err := w.once(d); err != nil {
			t.Error(err)
		}
		if east, west := w.filed(dir, "east"), w.filed(dir, "west"); len(east) < 4 || len(west) < 4 {
			t.Errorf("east has the hours %v, west %v: the log is\n%s", east, west, w.log.String())
		}
	})
}

// moving replaces the samples by samples of a board that moves to another cluster after 150 minutes.
func (w *world) moving() {
	w.samples = foldtest.NewStore()
	for minute := range 7 * 60 {
		cluster, node := "east", "n1"
		if minute >= 150 {
			cluster, node = "west", "n2"
		}
		at := w.begin.Add(time.Duration(minute)*time.Minute + 7*time.Second)
		labels := []string{"cluster", cluster, "node", node, "UUID", "GPU-1"}
		w.samples.Add(at, 1, "gpuledger_placement_info", labels...)
		w.samples.Add(at, float64(minute)*600, "gpuledger_board_energy_joules_total", labels...)
		for _, other := range []string{"east", "west"} { // a board that does not move
			labels := []string{"cluster", other, "node", "n-" + other, "UUID", "GPU-" + other}
			w.samples.Add(at, 1, "gpuledger_placement_info", labels...)
			w.samples.Add(at, float64(minute)*600, "gpuledger_board_energy_joules_total", labels...)
		}
	}
	w.api = foldtest.API{Store: w.samples}
}
