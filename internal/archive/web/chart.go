package web

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/print"
)

// At most one of the fields is set.
type chart struct {
	Bars     []bar
	Calendar *calendar
	Days     *days
}

type bar struct {
	Name, Text  string
	Width, Idle float64 // percentages of the longest bar
}

// draw chooses the kind of chart by the columns of the answer. The chart may be empty.
func draw(a print.Answer, style print.Style) chart {
	t := newTable(a)
	switch {
	case t.has("line", "idle_gpu_ms"):
		return chart{Bars: t.bars("idle_mj", "")}
	case t.has("line", "energy_mj", "idle_mj"):
		return chart{Bars: t.bars("energy_mj", "idle_mj")}
	case t.has("first_hour", "namespace", "pod", "manager", "unit", "energy_mj", "idle_mj"):
		return chart{Bars: t.users()}
	case t.has("start_event", "first_seen", "last_seen", "node"):
		return chart{Calendar: t.calendar(style.Zone)}
	case t.has("hour", "xid", "count"):
		return chart{Days: t.errors(style.Zone)}
	case t.has("allocated_ms", "idle_ms", "free_ms"):
		return chart{Days: t.capacity()}
	}
	return chart{}
}

// The field at contains the index of each column by name.
type tableOf struct {
	print.Answer
	at map[string]int
}

func newTable(a print.Answer) tableOf {
	t := tableOf{a, make(map[string]int)}
	for i, c := range a.Columns {
		t.at[c.Name] = i
	}
	return t
}

func (t tableOf) has(names ...string) bool {
	return len(t.Rows) > 0 && !slices.ContainsFunc(names, func(name string) bool { _, ok := t.at[name]; return !ok })
}

func (t tableOf) number(row []any, name string) int64 {
	n, _ := row[t.at[name]].(int64)
	return n
}

func (t tableOf) text(row []any, name string) string {
	text, _ := row[t.at[name]].(string)
	return text
}

func (t tableOf) time(row []any, name string) time.Time {
	at, _ := row[t.at[name]].(time.Time)
	return at
}

const maxBars = 25

// bars returns bars for the groups with the largest values. It also returns a bar for unattributed energy.
func (t tableOf) bars(amount, idle string) (all []bar) {
	var rows [][]any
	for _, row := range t.Rows {
		if t.text(row, "line") != "total" && t.number(row, amount) > 0 {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b []any) int { return cmp.Compare(t.number(b, amount), t.number(a, amount)) })
	for _, row := range rows[:min(maxBars, len(rows))] {
		longest := float64(t.number(rows[0], amount))
		b := bar{Name: t.name(row), Width: 100 * float64(t.number(row, amount)) / longest}
		b.Text = t.Columns[t.at[amount]].Text(row[t.at[amount]], print.Style{}) + " kWh"
		if idle != "" {
			b.Idle = min(b.Width, 100*float64(t.number(row, idle))/longest)
			if share := t.at["idle_share"]; row[share] != nil && t.text(row, "line") == "group" {
				b.Text += ", idle " + t.Columns[share].Text(row[share], print.Style{})
			}
		}
		all = append(all, b)
	}
	return all
}

// users returns bars for the energy of each pod and unit that used a board, in descending order. If there is only one
// pod or unit, it returns no bars.
func (t tableOf) users() []bar {
	type sum struct{ energy, idle int64 }
	sums := make(map[string]sum)
	for _, row := range t.Rows {
		name := t.text(row, "namespace") + " / " + t.text(row, "pod")
		if unit := t.text(row, "unit"); unit != "" {
			name = t.text(row, "manager") + " / " + unit
		}
		sums[name] = sum{sums[name].energy + t.number(row, "energy_mj"), sums[name].idle + t.number(row, "idle_mj")}
	}
	names := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[b].energy, sums[a].energy), cmp.Compare(a, b))
	})
	if len(names) < 2 || sums[names[0]].energy <= 0 {
		return nil
	}
	var all []bar
	longest := float64(sums[names[0]].energy)
	for _, name := range names[:min(maxBars, len(names))] {
		kwh := func(amount int64) string { return t.Columns[t.at["energy_mj"]].Text(amount, print.Style{}) + " kWh" }
		b := bar{Name: name, Width: 100 * float64(sums[name].energy) / longest, Text: kwh(sums[name].energy)}
		if idle := sums[name].idle; idle > 0 {
			b.Idle, b.Text = min(b.Width, 100*float64(idle)/longest), b.Text+", idle "+kwh(idle)
		}
		all = append(all, b)
	}
	return all
}

func (t tableOf) name(row []any) (name string) {
	for i, c := range t.Columns {
		text, ok := row[i].(string)
		if c.Kind == print.Text && c.Name != "line" && ok && text != "" {
			if name != "" {
				name += " / "
			}
			name += text
		}
	}
	return cmp.Or(name, "(none)")
}

type calendar struct {
	Width, Height int
	Days          []cell
	Places        []place
}

// cell is a day in a calendar, or a part of a column in a chart of days.
type cell struct {
	X, Y, Width, Height float64
	Class, Title        string
}

// place is an entry in a legend.
type place struct{ Class, Name string }

const maxDays = 371

// square is the size of a day in a calendar, in pixels.
const square = 14

// The calendar shows the last node of a board on each day.
func (t tableOf) calendar(zone *time.Location) *calendar {
	places, at := make(map[string]string), make(map[string]string)
	c := new(calendar)
	var first, last time.Time
	for _, row := range t.Rows {
		from, to := dayOf(t.time(row, "first_seen"), zone), dayOf(t.time(row, "last_seen"), zone)
		if t.time(row, "first_seen").IsZero() {
			continue
		}
		name := t.text(row, "cluster") + " " + t.text(row, "node")
		if places[name] == "" {
			places[name] = class(len(places))
			c.Places = append(c.Places, place{places[name], name})
		}
		if first.IsZero() || from.Before(first) {
			first = from
		}
		if to.After(last) {
			last = to
		}
		for at[key(from)] = name; from.Before(to); at[key(from)] = name {
			from = from.AddDate(0, 0, 1)
		}
	}
	if first.IsZero() {
		return nil
	}
	if earliest := last.AddDate(0, 0, 1-maxDays); first.Before(earliest) {
		first = earliest
	}
	monday := first.AddDate(0, 0, -(int(first.Weekday())+6)%7)
	for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
		n := int(day.Sub(monday).Hours()+12) / 24
		name := at[key(day)]
		c.Days = append(c.Days, cell{
			X: float64(n / 7 * square), Y: float64(n % 7 * square), Width: square - 2, Height: square - 2,
			Class: cmp.Or(places[name], "reason-idle"), Title: key(day) + ": " + cmp.Or(name, "in no place"),
		})
		c.Width = (n/7 + 1) * square
	}
	c.Height = 7 * square
	return c
}

func key(day time.Time) string { return day.Format(time.DateOnly) }

func dayOf(at time.Time, zone *time.Location) time.Time {
	year, month, day := at.In(zone).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

func class(n int) string {
	if n > 5 {
		return "owner-others"
	}
	return fmt.Sprintf("owner-%d", n)
}

type days struct {
	About, First, Last string
	Width              int
	Cells              []cell
	Parts              []place
}

type part struct {
	class, name string
	of          func(row []any) int64
}

// capacity returns a chart of the GPU hours by state and day (UTC). It omits the row of the last hour, because the row
// of the last day includes this hour.
func (t tableOf) capacity() *days {
	hours := func(name string) func([]any) int64 {
		return func(row []any) int64 { return t.number(row, name) }
	}
	return t.days("GPU hours by state on each day", "time", time.UTC, func(row []any) bool { return t.text(row, "line") == "model" && t.number(row, "hours") > 1 }, []part{
		{"owner-2", "allocated, working", func(row []any) int64 {
			return max(t.number(row, "allocated_ms")-t.number(row, "idle_ms"), 0)
		}},
		{"owner-1", "allocated, idle", hours("idle_ms")},
		{"reason-idle", "free", hours("free_ms")},
		{"owner-4", "silent", hours("silent_ms")},
		{"owner-3", "lost", hours("lost_ms")},
	})
}

func (t tableOf) errors(zone *time.Location) *days {
	return t.days("XID errors on each day", "hour", zone, func([]any) bool { return true },
		[]part{{"owner-3", "XID errors", func(row []any) int64 { return t.number(row, "count") }}})
}

func (t tableOf) days(about, column string, zone *time.Location, counts func(row []any) bool, parts []part) *days {
	sums := make(map[string][]int64)
	var first, last time.Time
	for _, row := range t.Rows {
		if !counts(row) || t.time(row, column).IsZero() {
			continue
		}
		day := dayOf(t.time(row, column), zone)
		if first.IsZero() || day.Before(first) {
			first = day
		}
		if day.After(last) {
			last = day
		}
		if sums[key(day)] == nil {
			sums[key(day)] = make([]int64, len(parts))
		}
		for i, p := range parts {
			sums[key(day)][i] += p.of(row)
		}
	}
	if first.IsZero() {
		return nil
	}
	d := &days{About: about, First: key(first), Last: key(last)}
	for _, p := range parts {
		d.Parts = append(d.Parts, place{p.class, p.name})
	}
	d.draw(first, last, sums)
	return d
}

// These are the sizes of a column in a chart of days, in pixels.
const columnHeight, columnWidth = 120, 10

func (d *days) draw(first, last time.Time, sums map[string][]int64) {
	var highest int64 = 1
	for _, parts := range sums {
		var sum int64
		for _, n := range parts {
			sum += n
		}
		highest = max(highest, sum)
	}
	if earliest := last.AddDate(0, 0, 1-maxDays); first.Before(earliest) {
		first = earliest
	}
	for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
		top := float64(columnHeight)
		for i, n := range sums[key(day)] {
			height := columnHeight * float64(n) / float64(highest)
			top -= height
			if height > 0 {
				d.Cells = append(d.Cells, cell{X: float64(d.Width) + 1, Y: top, Width: columnWidth - 2, Height: height, Class: d.Parts[i].Class, Title: key(day) + ": " + d.Parts[i].Name})
			}
		}
		d.Width += columnWidth
	}
}
