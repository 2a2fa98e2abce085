package tenants

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/test/markdown"
)

// A Row summarizes the variants of a light load.
type Row struct {
	Light
	By [2]Summary // for the truth with a shared floor, and for the truth in which the user pays
	// Measured is the number of variants for which the ledger measured the idle power. All is the number of all
	// variants.
	Measured, All int
}

// A Summary contains the mean part of the energy in wrong accounts, and the account with the largest error in
// any variant.
type Summary struct {
	Wrong float64
	Worst Share
	Error float64
	Of    Variant
}

var truths = [2]Truth{FloorShared, UserPays}

// Measure runs all variants of a light load.
func Measure(l Light, length time.Duration) (Row, error) {
	row := Row{Light: l}
	for _, v := range Variants() {
		results, err := Run(l.World(v, length))
		if err != nil {
			return row, err
		}
		r := &results[0]
		if r.Booked != r.Energy || r.Accounts != r.Booked {
			return row, fmt.Errorf("%s: the GPU used %d mJ, its book has %d mJ, its accounts hold %d mJ", r.World, r.Energy, r.Booked, r.Accounts)
		}
		row.add(r, v)
	}
	return row, nil
}

func (row *Row) add(r *Result, v Variant) {
	row.All++
	if r.Measured > 0 {
		row.Measured++
	}
	for i, truth := range truths {
		s := &row.By[i]
		s.Wrong += (r.Wrong(truth) - s.Wrong) / float64(row.All)
		if worst := r.Worst(truth); abs(worst.Charged-truth(worst)) > abs(s.Error) {
			s.Worst, s.Error, s.Of = worst, worst.Charged-truth(worst), v
		}
	}
}

// Table formats the rows as a table. Numbers are in percent of the GPU's energy.
func Table(rows []Row) *markdown.Table {
	t := markdown.NewTable("load of the GPU", "variants with a measured idle power",
		"user pays: in wrong accounts", "largest error", "floor shared: in wrong accounts", "largest error")
	for _, r := range rows {
		t.Add(r.String(), fmt.Sprintf("%d of %d", r.Measured, r.All),
			percent(r.By[1].Wrong), r.By[1].String(), percent(r.By[0].Wrong), r.By[0].String())
	}
	mean := Total(rows)
	t.Add("**all**", fmt.Sprintf("%d of %d", mean.Measured, mean.All),
		percent(mean.By[1].Wrong), mean.By[1].String(), percent(mean.By[0].Wrong), mean.By[0].String())
	return t
}

// Total returns the mean and the worst account over all rows.
func Total(rows []Row) (total Row) {
	for _, r := range rows {
		total.Measured, total.All = total.Measured+r.Measured, total.All+r.All
		for i := range truths {
			s := &total.By[i]
			s.Wrong += r.By[i].Wrong / float64(len(rows))
			if abs(r.By[i].Error) > abs(s.Error) {
				s.Worst, s.Error, s.Of = r.By[i].Worst, r.By[i].Error, r.By[i].Of
			}
		}
	}
	return total
}

// String describes the account with the largest error.
func (s *Summary) String() string {
	holder := "a holder with work"
	if strings.HasPrefix(s.Worst.Name, "idle-") {
		holder = "a holder without work"
	}
	return fmt.Sprintf("%s for %s (%v)", signed(s.Error), holder, s.Of)
}

// BesideTable returns a table with the true part and the charges of a working holder next to an idle holder. It has a
// column for each way in which a driver takes samples.
func BesideTable() (*markdown.Table, error) {
	head := []string{"load of the working holder", "truth"}
	var drivers []Driver
	for _, v := range Variants()[:9] {
		drivers = append(drivers, v.Driver)
		head = append(head, fmt.Sprintf("%v, %s", v.Names, spaced(v.Power)))
	}
	t := markdown.NewTable(head...)
	for i := range Besides() {
		var row []string
		for _, how := range drivers {
			b := Besides()[i]
			results, err := Run(b.World(how))
			if err != nil {
				return nil, err
			}
			if row == nil {
				row = []string{b.Name, percent(b.Truth)}
			}
			row = append(row, percent(results[0].Share("works").Charged))
		}
		t.Add(row...)
	}
	return t, nil
}

func percent(share float64) string { return fmt.Sprintf("%.1f", 100*share) }

func signed(share float64) string {
	return strings.Replace(fmt.Sprintf("%+.1f", 100*share), "-", "−", 1)
}

// CheatTable returns a table with the largest effects of each cheat, in percent of the GPU's energy. The columns
// distinguish whether samples name a process while nothing runs, and whether the idle power is estimated or configured.
// Each column contains the largest value of all scenes. If the victim pays less because of the cheat, the effect is 0.
func CheatTable(length time.Duration) (*markdown.Table, error) {
	t := markdown.NewTable("mallory's trick",
		"process named: moved", "worst scene", "process named: error", "process named, configured: moved", "process named, configured: error",
		"no process named: moved", "worst scene", "no process named: error", "no process named, configured: moved", "no process named, configured: error")
	for i := range Cheats() {
		row := []string{Cheats()[i].Name}
		for _, none := range []bool{false, true} {
			for _, configured := range []bool{false, true} {
				most, where, err := most(Cheats()[i], none, configured, length)
				if err != nil {
					return nil, err
				}
				if row = append(row, percent(most.Moved)); !configured {
					row = append(row, where)
				}
				row = append(row, percent(most.Error))
			}
		}
		t.Add(row...)
	}
	return t, nil
}

func most(c Cheat, none, configured bool, length time.Duration) (most Effect, where string, err error) {
	scenes := slices.DeleteFunc(Scenes(c), func(s Scene) bool { return none != (s.Names == NamesNone) })
	return mostOf(scenes, configured, length)
}

// where is the scene in which the cheat moves the most energy.
func mostOf(scenes []Scene, configured bool, length time.Duration) (most Effect, where string, err error) {
	where = "–"
	for _, s := range scenes {
		s.Configured = configured
		e, err := s.Effect(length)
		if err != nil {
			return most, "", err
		}
		if e.Moved > most.Moved {
			where = s.String()
		}
		most = Effect{max(most.Moved, e.Moved), max(most.Error, e.Error)}
	}
	return most, where, nil
}

// SharingTable returns the largest effects of each cheat on GPUs that are not time-sliced, in percent of the GPU's
// energy.
func SharingTable(length time.Duration) (*markdown.Table, error) {
	t := markdown.NewTable("GPU", "mallory's trick", "moved", "worst scene", "error", "configured: moved", "configured: error")
	for _, how := range Sharings {
		for i := range SharingCheats(how) {
			c := SharingCheats(how)[i]
			estimated, where, err := mostOf(SharingScenes(c, how), false, length)
			if err != nil {
				return nil, err
			}
			configured, _, err := mostOf(SharingScenes(c, how), true, length)
			if err != nil {
				return nil, err
			}
			t.Add(how.String(), c.Name, percent(estimated.Moved), where, percent(estimated.Error), percent(configured.Moved), percent(configured.Error))
		}
	}
	return t, nil
}

// TwinTable returns a table of the twins, in percent of the GPU's energy. For both worlds, it contains the true part of
// the victim and the error of the ledger. Its last value is the error that every rule must have in at least one of the
// two worlds.
func TwinTable(length time.Duration) (*markdown.Table, error) {
	t := markdown.NewTable("mallory's trick", "first world", "second world, with the same readings",
		"victim's true part, first world", "victim's true part, second world", "smallest error of any rule",
		"gpuledger's error, first world", "gpuledger's error, second world")
	for _, twin := range Twins() {
		shares, err := twin.Victims(length)
		if err != nil {
			return nil, err
		}
		one, other := shares[0], shares[1]
		t.Add(twin.Name, twin.Descriptions[0], twin.Descriptions[1], percent(one.UserPays), percent(other.UserPays), percent(abs(one.UserPays-other.UserPays)/2),
			signed(one.Charged-one.UserPays), signed(other.Charged-other.UserPays))
	}
	return t, nil
}
