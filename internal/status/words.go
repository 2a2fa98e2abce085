package status

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

const none = "–"

// stale is the age at which a snapshot counts as old. This age is much longer than a tick, even if calls time out
// during the tick.
const stale = 15 * time.Second

func or(s string) string {
	if s == "" {
		return none
	}
	return labelvalue.Printable(s)
}

var nouns = map[string]string{
	"slurm": "job", "pbs": "job", "torque": "job", "lsf": "job", "flux": "job", "nomad": "task", "condor": "slot",
	"docker": "container", "podman": "container", "nerdctl": "container", "lxc": "container", "machine": "machine",
	"libvirt": "virtual machine", "systemd": "service", "user": "user",
}

func unitName(manager, name string) string {
	if noun := nouns[manager]; noun != "" {
		return noun + " " + or(name)
	}
	return or(manager) + "/" + or(name)
}

func ago(seconds float64) string { return length(seconds) + " ago" }

func length(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", seconds)
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

func watts(w *float64) string {
	if w == nil {
		return none
	}
	return fmt.Sprintf("%.0f W", *w)
}

// unit is a unit of energy. All energy values on a page have the same unit, because readers could overlook that some
// values are in joules and others in megajoules.
type unit struct {
	Name   string
	joules float64
}

// unitFor returns the unit in which the highest energy on a page has at most four digits before the decimal point.
func unitFor(p Page) unit {
	var largest float64
	for i := range p.GPUs {
		if e := p.GPUs[i].Energy; e != nil {
			largest = max(largest, e.Total)
		}
	}
	return unitOf(largest)
}

func unitOf(largest float64) unit {
	for _, u := range []unit{{"J", 1}, {"kJ", 1e3}, {"MJ", 1e6}} {
		if largest < 1e4*u.joules {
			return u
		}
	}
	return unit{"GJ", 1e9}
}

// format formats energy in the unit. It never formats energy above zero as 0.
func (u unit) format(joules float64) string {
	v := joules / u.joules
	switch {
	case joules == 0:
		return "0"
	case math.Abs(v) < 0.01:
		return "<0.01"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// amount formats energy with the unit. A no-break space prevents a line break between the number and the unit.
func (u unit) amount(joules float64) string { return u.format(joules) + "\u00a0" + u.Name }

const joulesPerKWh = 3.6e6

func kilowattHours(joules float64) string {
	return unit{"kWh", joulesPerKWh}.amount(joules)
}

// percent formats a part of a whole in percent. The result is 0 % only if the part is zero, and 100 % only if the part
// is the whole.
func percent(part, whole float64) string {
	v := 100 * part / whole
	switch {
	case part == 0 || whole == 0:
		return "0\u00a0%"
	case v < 1:
		return "<1\u00a0%"
	case v > 99 && part < whole:
		return ">99\u00a0%"
	}
	return fmt.Sprintf("%.0f\u00a0%%", v)
}

func plural(n int, noun, more string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + more
}
