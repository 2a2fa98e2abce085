package status

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// WriteExplanation prints an explanation for a terminal.
func WriteExplanation(w io.Writer, e *Explanation) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n\n", e.Title(), e.Span())
	for _, line := range e.Sentences() {
		fmt.Fprintln(&b, line)
	}
	if len(e.Causes) > 0 {
		b.WriteString("\n")
		e.causeTable().write(&b)
	}
	b.WriteString("\n")
	e.totalTable().write(&b)
	if len(e.Times) > 0 {
		b.WriteString("\n")
		e.timeTable().write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Title returns a title with the owner and the GPU.
func (e *Explanation) Title() string {
	name := "a lost GPU"
	if e.GPU.Index != nil {
		name = fmt.Sprintf("GPU %d", *e.GPU.Index)
	}
	return fmt.Sprintf("%s on %s of %s (%s, serial %s)", labelvalue.Printable(e.Owner), name, or(e.Node), or(e.GPU.Model), or(e.GPU.Serial))
}

// Span returns a sentence about the explained time.
func (e *Explanation) Span() string {
	if e.Total.Intervals == 0 {
		return "No energy was charged since " + moment(e.Since) + "."
	}
	span := fmt.Sprintf("%s to %s, %s", moment(e.From), moment(e.To), plural(e.Total.Intervals, "interval", "intervals"))
	if e.From.After(e.Since.Add(slack)) {
		span += "; older intervals are not kept"
	}
	return span + "."
}

// If the first interval begins more than slack after the requested start, the explanation contains a remark.
const slack = 15 * stale

// Sentences returns sentences about the charge and its certainty.
func (e *Explanation) Sentences() []string {
	own := e.Total.Charged.Sum()
	if own == 0 {
		return []string{"Nothing was charged to this owner in this time."}
	}
	part := func(amount gpu.Millijoules) string {
		return fmt.Sprintf("%s (%s)", joules(amount)+" J", percent(float64(amount), float64(own)))
	}
	out := []string{fmt.Sprintf("Charged: %s J, %s of the GPU's %s J.", joules(own), percent(float64(own), float64(e.Total.Energy)), joules(e.Total.Energy))}
	add := func(amount gpu.Millijoules, about string) {
		if amount > 0 {
			out = append(out, part(amount)+" "+about)
		}
	}
	add(e.Total.Charged.Exclusive, "is measured: no other owner held or used the GPU.")
	add(own-e.Total.Charged.Exclusive, "is divided by a rule.")
	for s := range gpu.NumIdleSources {
		add(e.Estimated[s.String()], "was divided with an idle power "+idleSources[s]+".")
	}
	add(e.Unsampled, "was divided without a known busy share, so it has no idle part.")
	add(e.Late, "was counted late, because the energy counter changed late.")
	return out
}

// idleSources contains a phrase for each source of idle power. The phrase follows the words "an idle power" in a
// sentence.
var idleSources = [gpu.NumIdleSources]string{
	gpu.IdleMeasured:   "that was measured on this GPU",
	gpu.IdleConfigured: "that --idle-power sets for the model",
	gpu.IdleStored:     "that was measured on this node in an earlier boot",
	gpu.IdlePeer:       "that was measured on other GPUs of this model in the node",
	gpu.IdleLimit:      "that is estimated from the power limit",
}

// About describes the rule of the cause, and the owner's share.
func (c *Cause) About() string {
	switch c.Kind {
	case CauseSole:
		return "no other owner held or used the GPU or instance"
	case CauseIdle:
		return "idle part, divided by holding: " + c.share()
	case CauseActivity:
		if c.All == 0 {
			return "busy part of MIG instances that only this owner used"
		}
		return fmt.Sprintf("busy part, divided by activity: %s of %s s busy", seconds(c.Own), seconds(c.All))
	case CauseRecent:
		return "busy part without an owner in the samples, divided by the activity of the last minutes"
	case CauseHolding:
		return "busy part without sampled activity, divided by holding: " + c.share()
	case CauseService:
		return "work of an MPS server for several owners, divided by their replicas"
	case CauseVanished:
		return "work of processes that ended before they were identified"
	}
	return or(string(c.Kind))
}

func (c *Cause) share() string {
	switch {
	case c.All == 0:
		return "the shares changed during this time"
	case c.Held && c.Own == c.All:
		return "the only holder"
	case c.Held:
		return fmt.Sprintf("%s of %s held replicas", number(c.Own), number(c.All))
	case c.Own == c.All:
		return "the only owner of a context"
	}
	return fmt.Sprintf("%s of %s owners of contexts", number(c.Own), number(c.All))
}

func (e *Explanation) causeTable() *table {
	t := newTable(">CHARGED J", ">DIVIDED J", ">SECONDS", "CAUSE")
	for i := range e.Causes {
		c := &e.Causes[i]
		t.add(joules(c.Charged), joules(c.Divided), seconds(c.Seconds), c.About())
	}
	return t
}

func (e *Explanation) totalTable() *table {
	t := newTable("ENERGY OF THE GPU", ">JOULES")
	for _, a := range e.Amounts() {
		t.add(a.Name, joules(a.Amount))
	}
	return t
}

// Amount is a part of the GPU's energy, and the name of this part.
type Amount struct {
	Name   string
	Amount gpu.Millijoules
}

// Amounts returns the parts of the GPU's energy, and then the sum of these parts.
func (e *Explanation) Amounts() []Amount {
	c := e.Total.Charged
	out := []Amount{
		{"this owner: exclusive", c.Exclusive},
		{"this owner: shared", c.Shared},
		{"this owner: allocated", c.Allocated},
		{"other owners", e.Others},
	}
	for r := range gpu.NumReasons {
		if amount := e.Unattributed[r.String()]; amount != 0 {
			out = append(out, Amount{"unattributed: " + r.String(), amount})
		}
	}
	return append(out, Amount{"total", e.Total.Energy})
}

func (e *Explanation) timeTable() *table {
	t := newTable("FROM", ">LENGTH", ">GPU J", ">BUSY", ">IDLE W", ">IDLE J", ">BUSY J", ">ACTIVE", ">OWN IDLE J", ">OWN BUSY J", ">CHARGED J")
	for i := range e.Times {
		t.add(e.Times[i].Cells()...)
	}
	t.add(append([]string{"total"}, e.Total.Cells()[1:]...)...)
	return t
}

// Cells returns the values of a row in the table of times.
func (t *ExplainedTime) Cells() []string {
	share, power := none, none
	if t.BusyShare != nil {
		share = fmt.Sprintf("%.1f\u00a0%%", 100**t.BusyShare)
	}
	if t.IdlePower != nil {
		power = fmt.Sprintf("%.1f", *t.IdlePower)
		if t.IdlePowerSource != gpu.IdleMeasured.String() {
			power = "~" + power
		}
	}
	return []string{
		t.Clock(), seconds(t.To.Sub(t.From).Seconds()), joules(t.Energy), share, power,
		joules(t.Idle), joules(t.Busy), fmt.Sprintf("%s/%s", seconds(t.Activity), seconds(t.AllActivity)),
		joules(t.OwnIdle), joules(t.OwnBusy()), joules(t.Charged.Sum()),
	}
}

// Clock returns the time of day at which the row begins.
func (t *ExplainedTime) Clock() string { return t.From.UTC().Format(time.TimeOnly) }

// OwnBusy returns the owner's share of the busy part of the energy.
func (t *ExplainedTime) OwnBusy() gpu.Millijoules { return t.Charged.Sum() - t.OwnIdle }

// joules formats energy in joules, exactly to the millijoule.
func joules(m gpu.Millijoules) string {
	if m == 0 {
		return "0"
	}
	return strconv.FormatFloat(m.Joules(), 'f', 3, 64)
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 1, 64) }

func number(n float64) string { return strconv.FormatFloat(n, 'g', 4, 64) }
