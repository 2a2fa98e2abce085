package table

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MonthlyCharges has the sums of the charges and corrections of pruned hours, without pods and GPUs.
// Readers add up rows that differ in hours only: hours that were filed later have their own rows.
var MonthlyCharges = Table{
	Name: "monthly_charges",
	Help: "a sum of charges and corrections of pruned hours in a month. Add up rows that differ in hours only",
	Columns: []Column{
		{Name: "cluster", Type: Text, Help: "external label of the Prometheus"},
		{Name: "month", Type: Time, Help: "start of the month in UTC"},
		{Name: "hours", Type: Text, Help: "hours in the sum, numbered from 0 at the start of the month, such as 0-9,12-719"},
		{Name: "model", Type: Text, Help: "model of the GPU"},
		{Name: "namespace", Type: Text, Help: "namespace of the pods, empty for a unit or a reason"},
		{Name: "workload_kind", Type: Text, Help: "kind of the workload at the root of the owner chain of the pods"},
		{Name: "workload_name", Type: Text, Help: "name of that workload"},
		{Name: "team", Type: Text, Help: "team, as in charges"},
		{Name: "reason", Type: Text, Help: "reason of unattributed energy, empty for pods and units"},
		{Name: "energy_mj", Type: Int, Help: "energy in millijoules"},
		{Name: "exclusive_mj", Type: Int, Help: "measured part of the energy"},
		{Name: "idle_mj", Type: Int, Help: "idle part of the energy"},
		{Name: "held_ms", Type: Int, Help: "time that pods or the unit held GPUs, in milliseconds"},
		{Name: "gpu_ms", Type: Int, Help: "the same weighted by the share of the GPU"},
		{Name: "active_ms", Type: Int, Help: "time that pods or the unit worked on GPUs"},
		{Name: "manager", Type: Text, Help: "manager of the unit outside pods"},
		{Name: "unit", Type: Text, Help: "name of the unit"},
		{Name: "username", Type: Text, Help: "user of the unit, or the user id"},
		{Name: "estimated_mj", Type: Int, Help: "part of the energy that was divided with an estimated idle power", added: true},
		{Name: "busy_ms", Type: Int, Help: "sampled busy time of pods or the unit on GPUs", added: true},
	},
	Key:  []string{"cluster", "month"},
	Rows: func(*Hour) [][]any { return nil },
}

// Month returns the start of the month of a moment in UTC.
func Month(at time.Time) time.Time {
	at = at.UTC()
	return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// maxHours is the number of hours in the longest month.
const maxHours = 31 * 24

// HoursText returns hours of a month as in [MonthlyCharges].
func HoursText(month time.Time, hours []time.Time) string {
	var numbers []int
	for _, hour := range hours {
		numbers = append(numbers, int(hour.Sub(month)/time.Hour))
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	var texts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		text := strconv.Itoa(numbers[i])
		if j > i {
			text += "-" + strconv.Itoa(numbers[j])
		}
		texts = append(texts, text)
		i = j + 1
	}
	return strings.Join(texts, ",")
}

// ParseHours is the inverse of [HoursText].
func ParseHours(month time.Time, text string) (hours []time.Time, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		until, untilErr := strconv.ParseUint(last, 10, 16)
		if err != nil || untilErr != nil || from > until || until >= maxHours {
			return nil, fmt.Errorf("hours %q: must be numbers from 0 to %d, such as 0-9,12-719", text, maxHours-1)
		}
		if n := len(hours); n > 0 && !month.Add(time.Duration(from)*time.Hour).After(hours[n-1]) {
			return nil, fmt.Errorf("hours %q: must be in their order", text)
		}
		for n := from; n <= until; n++ {
			hours = append(hours, month.Add(time.Duration(n)*time.Hour))
		}
	}
	return hours, nil
}
