package ask

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

var errorColumns = columns[*table.GPU]{
	{"uncorrectable", "UNCORRECTABLE", print.Count, func(g *table.GPU) any { return number(plus(g.DRAMUncorrectable, g.SRAMUncorrectable)) }},
	{"lifetime_uncorrectable", "LIFETIME", print.Count, func(g *table.GPU) any { return number(g.LifetimeUncorrectable) }},
	{"correctable", "CORRECTABLE", print.Count, func(g *table.GPU) any { return number(plus(g.DRAMCorrectable, g.SRAMCorrectable)) }},
	{"low_memory_banks", "LOW BANKS", print.Count, func(g *table.GPU) any { return number(g.LowMemoryBanks) }},
	{"retired_pages", "RETIRED PAGES", print.Count, func(g *table.GPU) any { return number(g.RetiredPages) }},
	{"pcie_replays", "REPLAYS", print.Count, func(g *table.GPU) any { return number(g.PCIeReplays) }},
	{"nvlink_errors", "NVLINK", print.Count, func(g *table.GPU) any { return number(g.NVLinkErrors) }},
	{"thermal_ms", "HOT HOURS", print.Span, func(g *table.GPU) any { return number(g.Thermal) }},
	{"power_brake_ms", "BRAKE HOURS", print.Span, func(g *table.GPU) any { return number(g.PowerBrake) }},
	{"recovery_action", "ACTION", print.Text, func(g *table.GPU) any { return g.RecoveryAction }},
}

var errorsColumns = slices.Concat(boardColumns, assetColumns, columns[*listed]{
	{"cluster", "CLUSTER", print.Text, func(l *listed) any { return l.Cluster }},
	{"node", "NODE", print.Text, func(l *listed) any { return l.Node }},
	{"chassis_serial", "", print.Text, func(l *listed) any { return l.ChassisSerial }},
	{"chassis_slot", "", print.Text, func(l *listed) any { return l.ChassisSlot }},
	{"pci_bus_id", "PCI", print.Text, func(l *listed) any { return l.PCIBusID }},
	{"last_seen", "LAST SEEN", print.Time, (*listed).lastSeen},
}, within(errorColumns, (*listed).counts))

func number(n *int64) any {
	if n == nil {
		return nil
	}
	return *n
}

// An unknown number counts as 0. The sum is unknown only if both numbers are unknown.
func plus(a, b *int64) *int64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(*a + *b)
}

func positive(n *int64) bool { return n != nil && *n > 0 }

func uncorrectable(g *table.GPU) bool {
	return positive(g.DRAMUncorrectable) || positive(g.SRAMUncorrectable) || positive(g.LifetimeUncorrectable)
}

func erroneous(g *table.GPU) bool {
	return uncorrectable(g) || slices.ContainsFunc([]*int64{
		g.DRAMCorrectable, g.SRAMCorrectable, g.LowMemoryBanks, g.RetiredPages, g.PCIeReplays, g.NVLinkErrors, g.Thermal, g.PowerBrake,
	}, positive) || g.RecoveryAction != "" && g.RecoveryAction != "none"
}

// recorded reports whether any error count of a GPU is known. A count of 0 is known.
func recorded(g *table.GPU) bool {
	return g.RecoveryAction != "" || slices.ContainsFunc([]*int64{
		g.DRAMCorrectable, g.DRAMUncorrectable, g.SRAMCorrectable, g.SRAMUncorrectable, g.LifetimeUncorrectable, g.LowMemoryBanks, g.RetiredPages,
		g.PCIeReplays, g.NVLinkErrors, g.Thermal, g.PowerBrake,
	}, func(n *int64) bool { return n != nil })
}

// errors sorts the worst boards first. If the question names no boards, it lists only boards with errors.
func (q *question) errors(ctx context.Context) (print.Answer, error) {
	of := q.period()
	found, notices, err := q.find(ctx, of)
	if err != nil {
		return print.Answer{}, err
	}
	sums, err := q.sumErrors(ctx, of, found)
	if err != nil {
		return print.Answer{}, err
	}
	unrecorded := 0
	for uuid, g := range sums {
		if !recorded(&g) {
			unrecorded++
		}
		if len(q.names) == 0 && !erroneous(&g) || q.Uncorrectable && !uncorrectable(&g) {
			delete(sums, uuid)
		}
	}
	if unrecorded > 0 {
		notices = append(notices, fmt.Sprintf("GPUs without error counts in this time, because the GPU or its exporter reported no counts: %d", unrecorded))
	}
	all, notice, err := q.lastStays(ctx, of, slices.Sorted(maps.Keys(sums)))
	if err != nil {
		return print.Answer{}, err
	}
	if notice != "" {
		notices = append(notices, notice)
	}
	current, unknown := q.underWarranty(q.current(all), of.Until)
	if err := q.replaced(ctx, current, of); err != nil {
		return print.Answer{}, err
	}
	slices.SortStableFunc(current, func(x, y *Stay) int { return worse(sums[x.UUID], sums[y.UUID]) })
	if len(q.names) == 0 {
		found = []named{{uuids: slices.Collect(maps.Keys(sums))}}
	}
	rows := q.listed(found, current, of.Until)
	for _, l := range rows {
		l.errors = new(sums[l.UUID])
	}
	a := q.titled(errorsColumns.answer(rows...))
	a.Notices = append(notices, unknown...)
	return a, nil
}

func (q *question) sumErrors(ctx context.Context, of books.Query, found []named) (map[string]table.GPU, error) {
	if found != nil {
		of = where(of, "uuid", uuids(found)...)
	}
	if s, ok := q.source.Source.(books.Summing); ok {
		return s.Errors(ctx, of)
	}
	sums := make(map[string]table.GPU)
	for row, err := range q.source.Rows(ctx, of) {
		if err != nil {
			return nil, err
		}
		sum := sums[row.UUID]
		sum.AddErrors(&row.GPU)
		sums[row.UUID] = sum
	}
	return sums, nil
}

// worse compares two boards. The order is: uncorrectable errors in the period, lifetime uncorrectable errors, memory
// banks without spare rows.
func worse(a, b table.GPU) int {
	order := func(a, b *int64) int { return cmp.Compare(*cmp.Or(b, new(int64)), *cmp.Or(a, new(int64))) }
	return cmp.Or(
		order(plus(a.DRAMUncorrectable, a.SRAMUncorrectable), plus(b.DRAMUncorrectable, b.SRAMUncorrectable)),
		order(a.LifetimeUncorrectable, b.LifetimeUncorrectable), order(a.LowMemoryBanks, b.LowMemoryBanks),
	)
}

func (q *question) underWarranty(all []*Stay, at time.Time) (kept []*Stay, notices []string) {
	if !q.InWarranty {
		return all, nil
	}
	unknown := 0
	for _, s := range all {
		end, err := q.assets.Of(s.Serial).WarrantyEnd()
		switch {
		case err != nil || end.IsZero():
			unknown++
		case !end.Before(at):
			kept = append(kept, s)
		}
	}
	if unknown > 0 {
		notices = append(notices, fmt.Sprintf("GPUs that have errors but are not listed, because --assets contains no valid end of their warranty: %d", unknown))
	}
	return kept, notices
}
