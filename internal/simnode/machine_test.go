package simnode_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

func on(t *testing.T, scenario string, m simnode.Machine) simnode.Scenario {
	t.Helper()
	sc, err := simnode.Lookup(scenario)
	if err != nil {
		t.Fatal(err)
	}
	if sc, err = sc.On(m); err != nil {
		t.Fatal(err)
	}
	return sc
}

// The zero machine must leave the scenario unchanged, because all golden pages depend on this.
func TestOnZero(t *testing.T) {
	for _, sc := range simnode.Scenarios() {
		got := on(t, sc.Name, simnode.Machine{})
		if diff := cmp.Diff(sc, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sc.Name, diff)
		}
	}
}

// Machines with one scenario must have no identity in common.
func TestMachinesDiffer(t *testing.T) {
	for _, scenario := range []string{"dgx-h100", "gb200", "jobs"} {
		seen := make(map[string]int)
		for n := range 9 {
			sc := on(t, scenario, simnode.Machine{Number: n})
			ids := map[string]bool{sc.Node: true}
			for _, name := range []string{"product_uuid", "product_serial", "board_serial"} {
				ids[name+sc.DMI[name]] = true
			}
			for _, g := range sc.GPUs {
				ids[g.UUID], ids[g.Serial] = true, true
			}
			for _, p := range sc.Pods {
				ids[p.Namespace+"/"+p.Name] = true
			}
			for id := range ids {
				if other, ok := seen[id]; ok {
					t.Errorf("%s: machines %d and %d both have %s", scenario, other, n, id)
				}
				seen[id] = n
			}
		}
	}
}

// The trays of a rack must be in different places of one chassis. All other machines must be in different chassis.
func TestChassis(t *testing.T) {
	rack, tray := on(t, "gb200", simnode.Machine{}), on(t, "gb200", simnode.Machine{Number: 2})
	want := *rack.GPUs[0].Place
	want.Slot, want.Tray = want.Slot+2, want.Tray+2
	if diff := cmp.Diff(want, *tray.GPUs[0].Place); diff != "" {
		t.Errorf("place of another tray (-want +got):\n%s", diff)
	}
	if rack.DMI["chassis_serial"] != tray.DMI["chassis_serial"] {
		t.Errorf("trays of one rack have different chassis, %s and %s", rack.DMI["chassis_serial"], tray.DMI["chassis_serial"])
	}
	if a, b := on(t, "dgx-h100", simnode.Machine{}), on(t, "dgx-h100", simnode.Machine{Number: 1}); a.DMI["chassis_serial"] == b.DMI["chassis_serial"] {
		t.Errorf("two machines have the same chassis, %s", a.DMI["chassis_serial"])
	}
}

// A moved board must keep its identity but not its place. After the next boot, other pods must run.
func TestBoardMoves(t *testing.T) {
	from := on(t, "gb200", simnode.Machine{})
	before := on(t, "gb200", simnode.Machine{Number: 1})
	after := on(t, "gb200", simnode.Machine{Number: 1, Boot: 1, Boards: map[int]simnode.Board{2: {Position: 0}, 3: {Position: 1}}})
	for i := range 4 {
		want := before.GPUs[i]
		if i >= 2 {
			want.UUID, want.Serial = from.GPUs[i-2].UUID, from.GPUs[i-2].Serial
		}
		if diff := cmp.Diff(want, after.GPUs[i]); diff != "" {
			t.Errorf("GPU %d (-want +got):\n%s", i, diff)
		}
	}
	if before.Node != after.Node || before.Pods[1].Name == after.Pods[1].Name {
		t.Errorf("before the boot: node %s, pod %s; after it: node %s, pod %s", before.Node, before.Pods[1].Name, after.Node, after.Pods[1].Name)
	}
}

func TestOnRefuses(t *testing.T) {
	sc, err := simnode.Lookup("gb200")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		m    simnode.Machine
		want string
	}{
		{"negative number", simnode.Machine{Number: -1}, "machine -1"},
		{"no such position", simnode.Machine{Boards: map[int]simnode.Board{4: {}}}, "no board 4 in gb200"},
		{"no such board", simnode.Machine{Boards: map[int]simnode.Board{0: {Position: -1}, 1: {}}}, "no board -1 in gb200"},
		{"half a board", simnode.Machine{Boards: map[int]simnode.Board{1: {Position: 2}}}, "must move together"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := sc.On(tt.m); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("On = %v, want an error with %q", err, tt.want)
			}
		})
	}
}
