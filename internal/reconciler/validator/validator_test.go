package validator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/nodelabel"
	"github.com/gpuledger/gpuledger/internal/reconciler/validator"
)

const lapse = 20 * time.Minute

type bench struct {
	t   *testing.T
	v   *validator.Validator
	now time.Time
}

func newBench(t *testing.T) *bench {
	rules := nodelabel.Rules{Scheme: nodelabel.Own, Prefix: nodelabel.OwnPrefix}
	return &bench{t: t, v: validator.New(rules, lapse), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

// page returns the page of a healthy exporter for boards with one GPU each.
func (c *bench) page(serials ...string) inventory.Page {
	p := inventory.Page{Version: inventory.Version, Time: c.now, DriverUp: true}
	for i, s := range serials {
		p.GPUs = append(p.GPUs, inventory.GPU{Present: true, Device: gpu.Device{UUID: "GPU-" + s, Serial: s, PCIBusID: fmt.Sprint(i)}})
	}
	return p
}

// expect advances the clock by a second and checks the state after a page.
func (c *bench) expect(node string, p inventory.Page, want validator.State) validator.Finding {
	c.t.Helper()
	return c.expectFrom(node, "its exporter", p, want)
}

func (c *bench) expectFrom(node, exporter string, p inventory.Page, want validator.State) validator.Finding {
	c.t.Helper()
	c.now = c.now.Add(time.Second)
	f := c.v.Read(node, exporter, p, c.now)
	if f.State != want {
		c.t.Errorf("state of %s is %s (%s), want %s", node, f.State, f.Detail, want)
	}
	return f
}

// settles passes two equal pages to the validator, and checks that they are accepted.
func (c *bench) settles(node string, serials ...string) {
	c.t.Helper()
	c.expect(node, c.page(serials...), validator.Unconfirmed)
	c.expect(node, c.page(serials...), validator.Settled)
	c.wants(node, serials...)
}

// wants checks the serial numbers in the desired labels of a Node. If the call names no serial numbers, the desired
// state must be unknown.
func (c *bench) wants(node string, serials ...string) {
	c.t.Helper()
	d, known := c.v.Want(node, c.now)
	if known != (len(serials) > 0) {
		c.t.Errorf("the desired state of %s is known: %v", node, known)
		return
	}
	for i, s := range serials {
		if got := d.Labels[fmt.Sprintf("gpuledger.io/gpu-%d", i)]; got != s {
			c.t.Errorf("gpu-%d of %s should be %q, want %q", i, node, got, s)
		}
	}
}

func TestTwoEqualReadings(t *testing.T) {
	c := newBench(t)
	c.wants("a")
	c.expect("a", c.page("1"), validator.Unconfirmed)
	c.wants("a")
	c.expect("a", c.page("2"), validator.Unconfirmed)
	c.expect("a", c.page("1"), validator.Unconfirmed)
	c.expect("a", c.page("1"), validator.Settled)
	c.wants("a", "1")
	c.expect("a", c.page("2"), validator.Unconfirmed)
	c.wants("a", "1") // the labels are still known, so they can be repaired
	c.expect("a", c.page("1"), validator.Settled)
	c.expect("a", c.page("2"), validator.Unconfirmed)
	c.expect("a", c.page("2"), validator.Settled)
	c.wants("a", "2")
}

// TestSameReadingTwice checks that a reading that a hanging exporter returns again does not count as a confirmation.
func TestSameReadingTwice(t *testing.T) {
	c := newBench(t)
	p := c.page("1")
	c.expect("a", p, validator.Unconfirmed)
	c.expect("a", p, validator.Unconfirmed)
	c.expect("a", c.page("1"), validator.Settled)
	c.expect("a", p, validator.Settled) // confirmed labels require no second reading
}

// TestDriverDown checks that labels do not change while a driver is down. A reading from before the outage must not
// count as the first of two equal readings.
func TestDriverDown(t *testing.T) {
	c := newBench(t)
	c.settles("a", "1")
	down := c.page("2")
	down.DriverUp = false
	c.expect("a", c.page("2"), validator.Unconfirmed)
	c.expect("a", down, validator.DriverDown)
	c.wants("a", "1")
	c.expect("a", c.page("2"), validator.Unconfirmed)
	c.wants("a", "1")
}

func TestZeroGPUs(t *testing.T) {
	c := newBench(t)
	c.settles("a", "1")
	c.expect("a", c.page(), validator.Unconfirmed)
	c.expect("a", c.page(), validator.Settled)
	if d, known := c.v.Want("a", c.now); !known || !d.Equal(nodelabel.Desired{}) {
		t.Errorf("a node without GPUs should have the labels %v, known: %v", d, known)
	}
}

func TestRefused(t *testing.T) {
	c := newBench(t)
	twice := c.page("1", "1")
	other := c.page("1")
	other.Node.Name = "b"
	same := c.page("1")
	same.Node.Name = "a"
	tests := []struct {
		name string
		page inventory.Page
		want validator.State
	}{
		{"contradiction", twice, validator.Contradiction},
		{"other node", other, validator.OtherNode},
		{"its own name", same, validator.Unconfirmed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newBench(t)
			c.settles("a", "9")
			c.expect("a", tt.page, tt.want)
			if tt.want.Refused() {
				c.wants("a") // the labels are unknown until a page is accepted again
			}
			c.expect("a", c.page("9"), validator.Settled)
			c.wants("a", "9")
		})
	}
}

// TestDuplicates checks two nodes that report the same GPU. Neither node may be written until only one of them reports
// the GPU.
func TestDuplicates(t *testing.T) {
	serial := func(c *bench) inventory.Page {
		p := c.page("1")
		p.GPUs[0].UUID = "GPU-other"
		return p
	}
	uuid := func(c *bench) inventory.Page {
		p := c.page("1")
		p.GPUs[0].Serial = "other"
		return p
	}
	for want, page := range map[validator.State]func(*bench) inventory.Page{validator.DuplicateSerial: serial, validator.DuplicateUUID: uuid} {
		t.Run(string(want), func(t *testing.T) {
			c := newBench(t)
			c.settles("a", "1", "2")
			if f := c.expect("b", page(c), want); f.Other != "a" || f.Detail == "" {
				t.Errorf("finding: %+v", f)
			}
			c.expect("b", page(c), want)
			c.wants("a")
			c.wants("b")
			findings := map[string]validator.State{}
			for name, f := range c.v.Findings(c.now) {
				findings[name] = f.State
			}
			if diff := cmp.Diff(map[string]validator.State{"a": want, "b": want}, findings); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			c.settles("b", "3")
			c.wants("a", "1", "2")
		})
	}
}

// TestMovedBoard checks a board that moved to another node. The old node conflicts with the new node until the exporter
// on the old node is read again, is deleted, or has not responded for a long time.
func TestMovedBoard(t *testing.T) {
	tests := []struct {
		name string
		end  func(c *bench)
	}{
		{"the old node no longer reports the board", func(c *bench) { c.expect("old", c.page(), validator.Unconfirmed) }},
		{"the old node reports the board as lost", func(c *bench) {
			p := c.page("1")
			p.GPUs[0].Present = false
			c.expect("old", p, validator.Unconfirmed)
		}},
		{"the old node is deleted", func(c *bench) { c.v.Forget("old") }},
		{"the old node is silent", func(c *bench) { c.now = c.now.Add(lapse) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newBench(t)
			c.settles("old", "1")
			c.expect("new", c.page("1"), validator.DuplicateUUID)
			tt.end(c)
			c.expect("new", c.page("1"), validator.Settled)
			c.wants("new", "1")
		})
	}
}

// TestSilentIsNotRefused checks a node that was switched off before one of its boards was moved to another node. The
// inventory of the old node must not count as rejected.
func TestSilentIsNotRefused(t *testing.T) {
	c := newBench(t)
	c.settles("old", "1")
	twice := c.page("2", "3")
	twice.GPUs[1].UUID = twice.GPUs[0].UUID
	c.expect("wrong", twice, validator.Contradiction)
	c.expect("new", c.page("1"), validator.DuplicateUUID)
	c.now = c.now.Add(lapse)
	c.expect("new", c.page("1"), validator.Settled)
	want := map[string]validator.Finding{"new": {State: validator.Settled}}
	if diff := cmp.Diff(want, c.v.Findings(c.now)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	c.wants("old") // this node keeps its labels
}

func TestDisagreement(t *testing.T) {
	tests := []struct {
		name string
		end  func(c *bench)
	}{
		{"the second exporter is deleted", func(c *bench) { c.v.ForgetExporter("a", "second") }},
		{"the second exporter agrees again", func(c *bench) { c.expectFrom("a", "second", c.page("1"), validator.Settled) }},
		{"the driver of the second exporter is down", func(c *bench) { c.expectFrom("a", "second", inventory.Page{}, validator.DriverDown) }},
		{"the second exporter is silent", func(c *bench) { c.now = c.now.Add(lapse) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newBench(t)
			c.settles("a", "1")
			c.expectFrom("a", "second", c.page("1"), validator.Settled)
			for range 3 {
				for range 2 {
					c.expectFrom("a", "second", c.page("2"), validator.Disagreement)
					c.wants("a")
				}
				c.expect("a", c.page("1"), validator.Disagreement)
				c.wants("a")
			}
			tt.end(c)
			c.expect("a", c.page("1"), validator.Settled)
			c.wants("a", "1")
		})
	}
}

// TestDuplicateLabel checks that two serial numbers count as the same serial number if they have the same label value.
func TestDuplicateLabel(t *testing.T) {
	c := newBench(t)
	c.settles("a", "1654")
	p := c.page("1654!")
	if f := c.expect("b", p, validator.DuplicateSerial); f.Other != "a" {
		t.Errorf("finding: %+v", f)
	}
	c.wants("a")
}

func TestLostElsewhere(t *testing.T) {
	c := newBench(t)
	page := func() inventory.Page {
		p := c.page("9", "1")
		p.GPUs[1].Present = false
		return p
	}
	c.expect("old", page(), validator.Unconfirmed)
	c.expect("old", page(), validator.Settled)
	c.wants("old", "9", "1")
	c.settles("new", "1")
	c.wants("old", "9", "")
	if d, _ := c.v.Want("old", c.now); d.Labels["gpuledger.io/gpu-count"] != "1" {
		t.Errorf("other labels were removed too: %v", d.Labels)
	}
	c.v.Forget("new")
	c.wants("old", "9", "1")
}

// TestNoClaim checks that a placeholder for a missing serial number does not identify a board. Two GPUs of one board
// may have the same serial number.
func TestNoClaim(t *testing.T) {
	c := newBench(t)
	for _, node := range []string{"a", "b"} {
		p := c.page("0000000000000", "5")
		p.GPUs[0].UUID, p.GPUs[1].UUID, p.GPUs[1].Serial = "GPU-1"+node, "GPU-2"+node, "N/A"
		c.expect(node, p, validator.Unconfirmed)
	}
	dies := c.page("7", "8")
	dies.GPUs[1].Serial = "7"
	c.expect("c", dies, validator.Unconfirmed)
}

// TestAnnotationOnly checks that a change of only the annotation, such as another UUID of a GPU, also requires two
// readings.
func TestAnnotationOnly(t *testing.T) {
	c := newBench(t)
	c.settles("a", "1")
	was, _ := c.v.Want("a", c.now)
	other := func() inventory.Page {
		p := c.page("1")
		p.GPUs[0].UUID = "GPU-other"
		return p
	}
	c.expect("a", other(), validator.Unconfirmed)
	c.expect("a", other(), validator.Settled)
	if is, _ := c.v.Want("a", c.now); cmp.Equal(was.Annotations, is.Annotations) {
		t.Errorf("the annotation is still %v", is.Annotations)
	}
}

func TestForget(t *testing.T) {
	c := newBench(t)
	c.settles("a", "1")
	c.v.Forget("a")
	c.v.Forget("a")
	c.wants("a")
	if got := c.v.Findings(c.now); len(got) != 0 {
		t.Errorf("findings: %v", got)
	}
	c.expect("a", c.page("1"), validator.Unconfirmed)
}

// TestDuplicateOfOneThatIsDown checks that an exporter's last report remains valid while the driver is down, because
// the node may still contain the board. A finding about the page itself must have priority over a conflict.
func TestDuplicateOfOneThatIsDown(t *testing.T) {
	c := newBench(t)
	c.settles("a", "1")
	c.expect("b", c.page("1"), validator.DuplicateUUID)
	down, other := c.page(), c.page("1")
	down.DriverUp, other.Node.Name = false, "c"
	c.expect("a", down, validator.DuplicateUUID)
	c.wants("a")
	if f := c.expect("a", other, validator.OtherNode); f.Other != "" {
		t.Errorf("finding: %+v", f)
	}
	c.expect("b", c.page("2"), validator.Unconfirmed)
	if f := c.expect("a", c.page("1"), validator.Settled); f.Detail != "" {
		t.Errorf("finding: %+v", f)
	}
}
