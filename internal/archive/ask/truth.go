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

func truthFlags(fs *flag.FlagSet, o *options) {
	fs.Func("truth", "`file` with the true use of GPUs, such as truth-10s.jsonl from a simulated node; may be repeated. The charges from --from to --to are compared with the truth", func(path string) error {
		o.Truth = append(o.Truth, path)
		return nil
	})
	fs.DurationVar(&o.Scrape, "truth.scrape-interval", time.Minute, "scrape `interval` of the record, for --truth")
}

// compared contains the archived use and the true use of a GPU, or of a pod or unit on a GPU.
type compared struct {
	uuid  string
	owner truth.Owner // zero for the GPU
	filed *table.Charge
	known *truth.Use // nil if the truth does not contain the GPU
}

var truthColumns = columns[compared]{
	{"uuid", "GPU", print.Text, func(c compared) any { return c.uuid }},
	{"namespace", "NAMESPACE", print.Text, func(c compared) any { return unless(c.owner.Kind != truth.Pod, c.owner.Scope) }},
	{"pod", "POD", print.Text, func(c compared) any { return unless(c.owner.Kind != truth.Pod, c.owner.Name) }},
	{"pod_uid", "", print.Text, func(c compared) any { return c.owner.UID }},
	{"manager", "MANAGER", print.Text, func(c compared) any { return unless(c.owner.Kind != truth.Unit, c.owner.Scope) }},
	{"unit", "UNIT", print.Text, func(c compared) any { return unless(c.owner.Kind != truth.Unit, c.owner.Name) }},
	{"energy_mj", "FILED mJ", print.Count, func(c compared) any { return c.filed.Energy }},
	{"true_mj", "TRUE mJ", print.Count, func(c compared) any { return unless(c.known == nil, c.energy().True) }},
	{"least_mj", "LEAST mJ", print.Count, func(c compared) any { return unless(c.known == nil, c.energy().Least) }},
	{"most_mj", "MOST mJ", print.Count, func(c compared) any { return unless(c.known == nil, c.energy().Most) }},
	{"held_ms", "HELD ms", print.Count, func(c compared) any { return unless(c.owner.Kind == "", c.filed.Held) }},
	{"true_held_ms", "TRUE ms", print.Count, func(c compared) any { return unless(c.owner.Kind != truth.Pod, c.held().True) }},
	{"least_held_ms", "LEAST ms", print.Count, func(c compared) any { return unless(c.owner.Kind != truth.Pod, c.held().Least) }},
	{"most_held_ms", "MOST ms", print.Count, func(c compared) any { return unless(c.owner.Kind != truth.Pod, c.held().Most) }},
	{"ok", "OK", print.Flag, func(c compared) any { return c.ok() }},
}

func (c compared) energy() truth.Range { return cmp.Or(c.known, new(truth.Use)).Energy }

func (c compared) held() truth.Range { return cmp.Or(c.known, new(truth.Use)).Held }

// The truth contains no held time for units.
func (c compared) ok() bool {
	return c.known != nil && c.energy().Contains(c.filed.Energy) && (c.owner.Kind != truth.Pod || c.held().Contains(c.filed.Held))
}

// filedUse contains the charges for a GPU in the archive.
type filedUse struct {
	energy  int64
	unknown int64 // energy with a reason other than idle and host
	divided int64 // energy that was divided among pods and units by an estimate
	owners  map[truth.Owner]*table.Charge
}

func (q *question) compareTruth(ctx context.Context) (print.Answer, error) {
	of, notices := q.billed()
	known, err := q.readTruth(truth.Period{From: of.From, Until: of.Until, Scrape: q.Scrape})
	if err != nil {
		return print.Answer{}, err
	}
	of.By = []string{"cluster", "hour", "uuid", "namespace", "pod", "pod_uid", "manager", "unit", "reason"}
	st, err := q.source.Statement(ctx, of)
	if err != nil {
		return print.Answer{}, err
	}
	checks, _ := checksOf(of, st)
	if len(checks) == 0 {
		return print.Answer{}, &noHoursError{q.source.Name(), of}
	}
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		c := checks[name]
		if missing := missingHours(of, c.hours); missing != "" || c.wrong() > 0 {
			notices = append(notices, fmt.Sprintf("%s: in %d hours, the charges do not add up to the energy of the boards; missing hours: %s", name, c.wrong(), cmp.Or(missing, "none")))
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
	var all []compared
	for _, uuid := range slices.Sorted(slices.Values(uuids)) {
		all = append(all, comparedUses(uuid, filed[uuid], known[uuid])...)
	}
	a := truthColumns.answer(all...)
	a.Notices = notices
	if q.failed = q.failed || slices.ContainsFunc(all, func(c compared) bool { return !c.ok() }); q.failed {
		a.Notices = append(a.Notices, "the archive differs from the truth by more than the tolerance")
	}
	return a, nil
}

func (q *question) readTruth(period truth.Period) (map[string]*truth.GPU, error) {
	known := make(map[string]*truth.GPU)
	for _, path := range q.Truth {
		gpus, err := truth.Read(path, period)
		if err != nil {
			return nil, err
		}
		for uuid, g := range gpus {
			if known[uuid] != nil {
				return nil, fmt.Errorf("%s: the GPU %s is also in another file: start each simulated node with its own --number", path, uuid)
			}
			known[uuid] = g
		}
	}
	return known, nil
}

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

// comparedUses returns the rows for a GPU, its pods and its units. The GPU may be missing in the archive or in the
// truth.
func comparedUses(uuid string, filed *filedUse, known *truth.GPU) []compared {
	if filed == nil {
		filed = &filedUse{}
	}
	gpu := compared{uuid: uuid, filed: &table.Charge{Energy: filed.energy}}
	if known == nil {
		return []compared{gpu}
	}
	gpu.known = &truth.Use{Energy: known.Energy}
	rows, all := []compared{gpu}, slices.Collect(maps.Keys(known.Owners))
	for owner := range filed.owners {
		if _, ok := known.Owners[owner]; !ok {
			all = append(all, owner)
		}
	}
	slices.SortFunc(all, func(a, b truth.Owner) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	for _, owner := range all {
		c := cmp.Or(filed.owners[owner], new(table.Charge))
		rows = append(rows, compared{uuid, owner, c, new(filed.tolerance(c, known.Owners[owner], len(all) > 1))})
	}
	return rows
}

// tolerance widens the range of the true use by two amounts: energy that was divided among several pods or units, and
// energy without a known owner.
func (u *filedUse) tolerance(c *table.Charge, use truth.Use, several bool) truth.Use {
	if several {
		own := c.Energy - c.Exclusive
		use.Energy = use.Energy.Widen(max(own, u.divided-own))
	}
	use.Energy.Least = max(0, use.Energy.Least-u.unknown)
	return use
}
