package sampler

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// A descriptionRow stores the description of a unit for the next exporter process. An epilog removes the job's files
// when the job ends, but the job's series remain for a while. The row does not contain the user's name.
type descriptionRow struct {
	Manager   string `json:"manager"`
	Unit      string `json:"unit"`
	SLUID     string `json:"sluid,omitempty"`
	Account   string `json:"account,omitempty"`
	Partition string `json:"partition,omitempty"`
	Cluster   string `json:"cluster,omitempty"`
}

func (r descriptionRow) unit() gpu.Unit { return gpu.Unit{Manager: r.Manager, Name: r.Unit} }

// stored contains the rows of an earlier exporter. saved contains the rows that this exporter saved last.
type descriptions struct {
	stored, saved []descriptionRow
	due           time.Duration // boot-clock time of the next save
	failed        bool          // set if the last save failed
}

const (
	// describeEvery is the minimum time between two saves.
	describeEvery = 5 * time.Second
	// maxDescriptions limits the number of rows. maxDescription limits the bytes of each text in a row.
	maxDescriptions = 4096
	maxDescription  = 255
)

// check rejects rows that no exporter can have written.
func (d *descriptions) check() error {
	if len(d.stored) > maxDescriptions {
		return fmt.Errorf("the table contains %d rows, but the limit is %d", len(d.stored), maxDescriptions)
	}
	for _, r := range d.stored {
		if r.Manager == "" || r.Unit == "" || r.Account+r.Partition+r.Cluster == "" {
			return fmt.Errorf("the row %+v does not describe a unit", r)
		}
		for _, text := range []string{r.Manager, r.Unit, r.SLUID, r.Account, r.Partition, r.Cluster} {
			if len(text) > maxDescription {
				return fmt.Errorf("the table contains a text of %d bytes, but the limit is %d bytes", len(text), maxDescription)
			}
		}
	}
	return nil
}

// complete adds the stored descriptions of units that have an account. If the SLUIDs differ, the stored description
// belongs to an earlier run of the job, so complete omits it.
func (d *descriptions) complete(units map[gpu.Unit]gpu.UnitInfo, books ledger.State) map[gpu.Unit]gpu.UnitInfo {
	if len(d.stored) == 0 {
		return units
	}
	kept := unitsOf(books)
	d.stored = slices.DeleteFunc(d.stored, func(r descriptionRow) bool { return !kept[r.unit()] })
	units = maps.Clone(units)
	if units == nil {
		units = make(map[gpu.Unit]gpu.UnitInfo)
	}
	for _, r := range d.stored {
		info := units[r.unit()]
		if info.SLUID != "" && r.SLUID != "" && info.SLUID != r.SLUID {
			continue
		}
		info.SLUID = cmp.Or(info.SLUID, r.SLUID)
		info.Account = cmp.Or(info.Account, r.Account)
		info.Partition = cmp.Or(info.Partition, r.Partition)
		info.Cluster = cmp.Or(info.Cluster, r.Cluster)
		units[r.unit()] = info
	}
	return units
}

func unitsOf(books ledger.State) map[gpu.Unit]bool {
	all := make(map[gpu.Unit]bool)
	for _, b := range books.Books {
		for i := range b.Accounts {
			all[b.Accounts[i].Unit()] = true
			for _, u := range b.Accounts[i].Units {
				all[u.Unit] = true
			}
		}
	}
	return all
}

// update returns nil if the rows need not be saved now.
func (d *descriptions) update(now time.Duration, units map[gpu.Unit]gpu.UnitInfo) []descriptionRow {
	if now < d.due {
		return nil
	}
	rows := []descriptionRow{}
	for u, i := range units {
		if i.Account+i.Partition+i.Cluster != "" {
			rows = append(rows, descriptionRow{u.Manager, u.Name, i.SLUID, i.Account, i.Partition, i.Cluster})
		}
	}
	slices.SortFunc(rows, func(a, b descriptionRow) int {
		return cmp.Or(cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Unit, b.Unit))
	})
	rows = rows[:min(len(rows), maxDescriptions)]
	if slices.Equal(rows, d.saved) {
		return nil
	}
	d.due = now + describeEvery
	return rows
}

// restoreJobs ignores a table that cannot be read.
func (s *store) restoreJobs(table descriptions, err error) {
	if err != nil {
		table = descriptions{}
		if !errors.Is(err, fs.ErrNotExist) {
			s.cfg.Log.Warn("ignoring the job descriptions of an earlier exporter", "err", err)
		}
	}
	table.saved = slices.Clone(table.stored)
	s.jobs = table
}
