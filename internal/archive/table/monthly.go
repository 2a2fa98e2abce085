package table

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// monthlySince is the version of the schema that added [MonthlyCharges].
const monthlySince = 8

const hoursColumn = "hours"

var summed = func() (all []Field[Charge]) {
	for _, f := range charge {
		if f.summed != "" {
			f.Help = f.summed
			all = append(all, f)
		}
	}
	return all
}()

// Summed returns the columns of charges that are also in [MonthlyCharges]. Strings are copied. Integers are added up.
func Summed() []Column { return columnsOf(summed, monthlySince) }

// The hour of a monthly sum is the start of its month.
var monthly = append([]Field[Charge]{
	text("cluster", clusterHelp, func(c *Charge) *string { return &c.Cluster }),
	moment("month", "start of the month in UTC", func(c *Charge) *time.Time { return &c.Hour }),
	computed(hoursColumn, Text, "hours in the sum, numbered from 0 at the start of the month, such as 0-9,12-719", func(*Hour, *Charge) any { return "" }),
	text("model", "model of the GPU", func(c *Charge) *string { return &c.Model }),
}, summed...)

// MonthlyCharges contains sums of the charges and corrections of pruned hours, without pods and GPUs. If hours were
// written after a pruning, a second pruning adds separate rows for them. Readers must therefore add up rows that differ
// only in the column hours.
var MonthlyCharges = Table{
	Name:    "monthly_charges",
	Help:    "the sum of charges and corrections of pruned hours in a month. Add up rows that differ only in hours",
	Columns: columnsOf(monthly, monthlySince),
	Key:     []string{"cluster", "month"},
	Rows:    func(*Hour) [][]any { return nil },
}

// Month returns the start of the month in UTC.
func Month(at time.Time) time.Time {
	at = at.UTC()
	return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// Day returns the start of the day in UTC.
func Day(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }

const maxHours = 31 * 24

// HoursText formats hours of a month for the column hours of [MonthlyCharges], such as 0-9,12-719.
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
			return nil, fmt.Errorf("hours %q: must be in ascending order", text)
		}
		for n := from; n <= until; n++ {
			hours = append(hours, month.Add(time.Duration(n)*time.Hour))
		}
	}
	return hours, nil
}
