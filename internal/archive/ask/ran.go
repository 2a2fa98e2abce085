package ask

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

var ranColumns = columns[*use]{
	{"cluster", "CLUSTER", print.Text, func(u *use) any { return u.Cluster }},
	{"namespace", "NAMESPACE", print.Text, func(u *use) any { return u.Namespace }},
	{"pod", "POD", print.Text, func(u *use) any { return u.Pod }},
	{"pod_uid", "", print.Text, func(u *use) any { return u.PodUID }},
	{"workload_kind", "", print.Text, func(u *use) any { return u.WorkloadKind }},
	{"workload_name", "WORKLOAD", print.Text, func(u *use) any { return u.WorkloadName }},
	{"manager", "MANAGER", print.Text, func(u *use) any { return u.Manager }},
	{"unit", "UNIT", print.Text, func(u *use) any { return u.Unit }},
	{"username", "USER", print.Text, func(u *use) any { return u.Username }},
	{"team", "TEAM", print.Text, func(u *use) any { return u.Team }},
	{"node", "NODE", print.Text, func(u *use) any { return u.Node }},
	{"serial", "SERIAL", print.Text, func(u *use) any { return u.Serial }},
	{"uuid", "", print.Text, func(u *use) any { return u.UUID }},
	{"first_hour", "FROM", print.Time, func(u *use) any { return u.first }},
	{"last_hour", "LAST HOUR", print.Time, func(u *use) any { return u.last }},
	{"energy_mj", "KWH", print.Energy, func(u *use) any { return u.Energy }},
	{"exclusive_mj", "", print.Energy, func(u *use) any { return u.Exclusive }},
	{"estimated_mj", "", print.Energy, func(u *use) any { return u.Estimated }},
	{"idle_mj", "IDLE KWH", print.Energy, func(u *use) any { return u.Idle }},
	{"gpu_ms", "GPU HOURS", print.Span, func(u *use) any { return u.GPUTime }},
	{"active_ms", "ACTIVE HOURS", print.Span, func(u *use) any { return u.Active }},
	{"busy_ms", "BUSY HOURS", print.Span, func(u *use) any { return u.Busy }},
	{"thermal_energy_mj", "", print.Energy, func(u *use) any { return u.ThermalEnergy }},
	{"thermal_ms", "", print.Span, func(u *use) any { return u.Thermal }},
	{"power_brake_energy_mj", "", print.Energy, func(u *use) any { return u.PowerBrakeEnergy }},
	{"power_brake_ms", "", print.Span, func(u *use) any { return u.PowerBrake }},
	{"queue", "", print.Text, func(u *use) any { return u.Queue }},
	{"cluster_queue", "", print.Text, func(u *use) any { return u.ClusterQueue }},
}

var useColumns = []string{"cluster", "node", "uuid", "serial", "namespace", "pod", "pod_uid", "workload_kind", "workload_name", "manager", "unit", "username", "team", "queue", "cluster_queue", "reason", "hour"}

func (q *question) ran(ctx context.Context) (print.Answer, error) {
	of := q.period()
	if !q.At.IsZero() {
		of.From = q.At.Truncate(time.Hour)
	}
	of, notices, err := q.users(ctx, of)
	if err != nil {
		return print.Answer{}, err
	}
	of.By = useColumns
	st, err := q.source.Statement(ctx, of)
	if err != nil {
		return print.Answer{}, err
	}
	a := ranColumns.answer(uses(st.Charges)...)
	a.Notices = notices
	switch {
	case len(a.Rows) > 0:
	case len(q.names) > 0:
		a.Notices = append(a.Notices, fmt.Sprintf("no pod or unit used %s from %s to %s", q.names[0], stamp(of.From), stamp(of.Until)))
	default:
		return a, unusedError{fmt.Errorf("according to %s, %s used no GPU from %s to %s: check the name, or set --since", q.source.Name(), cmp.Or(q.Pod, q.Workload, q.Unit), stamp(of.From), stamp(of.Until))}
	}
	return a, nil
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02 15:04") }

func (q *question) users(ctx context.Context, of books.Query) (books.Query, []string, error) {
	given := len(q.names)
	for _, text := range []string{q.Pod, q.Workload, q.Unit} {
		if text != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return of, nil, Invalid(fmt.Errorf("ran needs a board, --pod=namespace/pod, --workload=namespace/kind/name or --unit=manager/unit"))
	case q.Unit != "":
		manager, unit, ok := cutPair(q.Unit)
		if !ok {
			return of, nil, Invalid(fmt.Errorf("--unit=%s: must be manager/unit, such as slurm/4711", q.Unit))
		}
		return where(where(of, "manager", manager), "unit", unit), nil, nil
	case len(q.names) > 0:
		found, notices, err := q.find(ctx, of)
		return where(of, "uuid", uuids(found)...), notices, err
	case q.Pod != "":
		namespace, pod, ok := cutPair(q.Pod)
		if !ok {
			return of, nil, Invalid(fmt.Errorf("--pod=%s: must be namespace/pod", q.Pod))
		}
		return where(where(of, "namespace", namespace), "pod", pod), nil, nil
	}
	of, err := q.workload(of)
	return of, nil, err
}

func cutPair(text string) (before, after string, ok bool) {
	before, after, _ = strings.Cut(text, "/")
	return before, after, before != "" && after != ""
}

func (q *question) workload(of books.Query) (books.Query, error) {
	columns := []string{"namespace", "workload_kind", "workload_name"}
	parts := strings.Split(q.Workload, "/")
	if len(parts) > len(columns) || slices.Contains(parts, "") {
		return of, Invalid(fmt.Errorf("--workload=%s: must be name, kind/name or namespace/kind/name", q.Workload))
	}
	for i, part := range parts {
		of = where(of, columns[len(columns)-len(parts)+i], part)
	}
	return of, nil
}

type use struct {
	table.Charge
	first, last time.Time
}

func uses(charges []table.Charge) (all []*use) {
	type key struct{ cluster, node, uuid, namespace, pod, uid, manager, unit string }
	known := make(map[key]*use)
	slices.SortStableFunc(charges, func(a, b table.Charge) int { return a.Hour.Compare(b.Hour) })
	for _, c := range charges {
		if c.Reason != "" {
			continue
		}
		k := key{c.Cluster, c.Node, c.UUID, c.Namespace, c.Pod, c.PodUID, c.Manager, c.Unit}
		u := known[k]
		if u == nil {
			u = &use{Charge: c, first: c.Hour, last: c.Hour}
			known[k] = u
			all = append(all, u)
			continue
		}
		u.Add(&c)
		u.last = c.Hour
		for _, text := range []struct{ known, now *string }{
			{&u.Serial, &c.Serial},
			{&u.WorkloadKind, &c.WorkloadKind},
			{&u.WorkloadName, &c.WorkloadName},
			{&u.Team, &c.Team},
			{&u.Username, &c.Username},
			{&u.Queue, &c.Queue},
			{&u.ClusterQueue, &c.ClusterQueue},
		} {
			*text.known = cmp.Or(*text.now, *text.known)
		}
	}
	slices.SortStableFunc(all, func(a, b *use) int {
		return cmp.Or(a.first.Compare(b.first), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
			cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Node, b.Node))
	})
	return all
}
