package ask

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/archive/truth"
)

// truthFlags adds the flags of the comparison with the truth of simulated nodes.
func truthFlags(fs *flag.FlagSet, o *options) {
	fs.Func("truth", "`file` with the true use of GPUs, such as truth-10s.jsonl of a simulated node; may be repeated. Compares the charges of --from to --to with it", func(path string) error {
		o.Truth = append(o.Truth, path)
		return nil
	})
	fs.DurationVar(&o.Scrape, "truth.scrape-interval", time.Minute, "`interval` of the scrapes of the record, for --truth")
}

// truthColumns are the columns of the comparison with the truth.
var truthColumns = []print.Column{
	{Name: "uuid", Title: "GPU"},
	{Name: "namespace", Title: "NAMESPACE"},
	{Name: "pod", Title: "POD"},
	{Name: "pod_uid"},
	{Name: "manager", Title: "MANAGER"},
	{Name: "unit", Title: "UNIT"},
	{Name: "energy_mj", Title: "FILED mJ", Kind: print.Count},
	{Name: "true_mj", Title: "TRUE mJ", Kind: print.Count},
	{Name: "least_mj", Title: "LEAST mJ", Kind: print.Count},
	{Name: "most_mj", Title: "MOST mJ", Kind: print.Count},
	{Name: "held_ms", Title: "HELD ms", Kind: print.Count},
	{Name: "true_held_ms", Title: "TRUE ms", Kind: print.Count},
	{Name: "least_held_ms", Title: "LEAST ms", Kind: print.Count},
	{Name: "most_held_ms", Title: "MOST ms", Kind: print.Count},
	{Name: "ok", Title: "OK", Kind: print.Flag},
}

// filedUse contains the filed charges of a GPU.
type filedUse struct {
	energy  int64
	unknown int64 // energy with a reason other than idle and host
	divided int64 // energy of owners that was not measured
	owners  map[truth.Owner]*table.Charge
}

// compareTruth compares the charges of a period with the truth.
func (q *question) compareTruth(ctx context.Context) (print.Answer, error) {
	of, notices := q.billed()
	a := print.Answer{Columns: truthColumns, Notices: notices}
	known, err := q.readTruth(truth.Period{From: of.From, Until: of.Until, Scrape: q.Scrape})
	if err != nil {
		return a, err
	}
	of.By = []string{"cluster", "hour", "uuid", "namespace", "pod", "pod_uid", "manager", "unit", "reason"}
	st, err := q.source.Statement(ctx, of)
	if err != nil {
		return a, err
	}
	checks, _ := checksOf(of, st)
	if len(checks) == 0 {
		return a, &noHoursError{q.source.Name(), of}
	}
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		c := checks[name]
		if missing := missingHours(of, c.hours); missing != "" || c.wrong() > 0 {
			a.Notices = append(a.Notices, fmt.Sprintf("%s: %d hours with charges that do not add up to their boards, missing hours: %s", name, c.wrong(), cmp.Or(missing, "none")))
			q.failed = true
		}
	}
	filed := usedBy(st.Charges)
	uuids := slices.Collect(maps.Keys(known))
	for uuid := range filed {
		if known[uuid] == nil {
			uuids = append(uuids, uuid)
		}
	}
	for _, uuid := range slices.Sorted(slices.Values(uuids)) {
		rows := truthRows(uuid, filed[uuid], known[uuid])
		a.Rows = append(a.Rows, rows...)
		q.failed = q.failed || slices.ContainsFunc(rows, func(row []any) bool { return row[len(row)-1] == false })
	}
	if q.failed {
		a.Notices = append(a.Notices, "the archive differs from the truth by more than the tolerance")
	}
	return a, nil
}

// readTruth returns the GPUs of all files of the truth by UUID.
func (q *question) readTruth(period truth.Period) (map[string]*truth.GPU, error) {
	known := make(map[string]*truth.GPU)
	for _, path := range q.Truth {
		gpus, err := truth.Read(path, period)
		if err != nil {
			return nil, err
		}
		for uuid, g := range gpus {
			if known[uuid] != nil {
				return nil, fmt.Errorf("%s: the GPU %s is in another file too: start each simulated node with its own --number", path, uuid)
			}
			known[uuid] = g
		}
	}
	return known, nil
}

// usedBy adds up charges by GPU and owner.
func usedBy(charges []table.Charge) map[string]*filedUse {
	filed := make(map[string]*filedUse)
	for i := range charges {
		c := &charges[i]
		if filed[c.UUID] == nil {
			filed[c.UUID] = &filedUse{owners: make(map[truth.Owner]*table.Charge)}
		}
		u := filed[c.UUID]
		u.energy += c.Energy
		switch c.Reason {
		case "":
		case "idle", "host":
			continue
		default:
			u.unknown += c.Energy
			continue
		}
		owner := truth.Owner{Kind: truth.Pod, Scope: c.Namespace, Name: c.Pod, UID: c.PodUID}
		if c.Manager != "" {
			owner = truth.Owner{Kind: truth.Unit, Scope: c.Manager, Name: c.Unit}
		}
		if u.owners[owner] == nil {
			u.owners[owner] = &table.Charge{}
		}
		u.owners[owner].Add(c)
		u.divided += c.Energy - c.Exclusive
	}
	return filed
}

// truthRows returns the rows of a GPU and its owners. A GPU that is missing in the archive or in the truth is not OK.
func truthRows(uuid string, filed *filedUse, known *truth.GPU) (rows [][]any) {
	if filed == nil {
		filed = &filedUse{}
	}
	if known == nil {
		return [][]any{{uuid, nil, nil, "", nil, nil, filed.energy, nil, nil, nil, nil, nil, nil, nil, false}}
	}
	r := known.Energy
	rows = append(rows, []any{uuid, nil, nil, "", nil, nil, filed.energy, r.True, r.Least, r.Most, nil, nil, nil, nil, r.Contains(filed.energy)})
	all := slices.Collect(maps.Keys(known.Owners))
	for owner := range filed.owners {
		if _, ok := known.Owners[owner]; !ok {
			all = append(all, owner)
		}
	}
	slices.SortFunc(all, func(a, b truth.Owner) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	for _, owner := range all {
		c := filed.owners[owner]
		if c == nil {
			c = &table.Charge{}
		}
		rows = append(rows, ownerRow(uuid, owner, c, filed.tolerance(c, known.Owners[owner], len(all) > 1)))
	}
	return rows
}

// tolerance widens the true use of an owner by the energy that was divided over several owners, and by the energy without a known
// owner.
func (u *filedUse) tolerance(c *table.Charge, use truth.Use, several bool) truth.Use {
	if several {
		own := c.Energy - c.Exclusive
		use.Energy = use.Energy.Widen(max(own, u.divided-own))
	}
	use.Energy.Least = max(0, use.Energy.Least-u.unknown)
	return use
}

// ownerRow returns the row of a pod or unit. The truth has no held time of units.
func ownerRow(uuid string, owner truth.Owner, c *table.Charge, use truth.Use) []any {
	e, h := use.Energy, use.Held
	row := []any{uuid, owner.Scope, owner.Name, owner.UID, nil, nil, c.Energy, e.True, e.Least, e.Most, c.Held, h.True, h.Least, h.Most, e.Contains(c.Energy) && h.Contains(c.Held)}
	if owner.Kind == truth.Unit {
		copy(row[1:], []any{nil, nil, "", owner.Scope, owner.Name})
		copy(row[10:], []any{c.Held, nil, nil, nil, e.Contains(c.Energy)})
	}
	return row
}
