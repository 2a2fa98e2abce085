package ask

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/factors"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// These columns are defined by FOCUS (FinOps Open Cost and Usage Specification). Versions 1.2 and 1.3 share most of
// them. Only version 1.3 contains the columns for split cost allocation.
var (
	focusColumns = []string{
		"BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass",
		"ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "ContractedUnitPrice",
		"EffectiveCost", "InvoiceIssuerName", "ListCost", "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName",
		"RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceId",
		"SubAccountId", "SubAccountName", "Tags",
	}
	splitColumns = []string{
		"AllocatedMethodDetails", "AllocatedMethodId", "AllocatedResourceId", "AllocatedResourceName", "AllocatedTags", "HostProviderName", "ServiceProviderName",
	}
)

var exports = map[string]func(*question, context.Context) (print.Answer, error){
	"focus":            func(q *question, ctx context.Context) (print.Answer, error) { return q.focus(ctx, true) },
	"focus-1.3":        func(q *question, ctx context.Context) (print.Answer, error) { return q.focus(ctx, true) },
	"focus-1.2":        func(q *question, ctx context.Context) (print.Answer, error) { return q.focus(ctx, false) },
	"impact-framework": (*question).impact,
}

// export writes CSV, or JSON with -o json.
func (q *question) export(ctx context.Context) (print.Answer, error) {
	write, ok := exports[q.Format]
	if !ok {
		return print.Answer{}, Invalid(fmt.Errorf("--format=%s: must be focus (1.3), focus-1.2 or impact-framework", q.Format))
	}
	return write(q, ctx)
}

var detailColumns = []string{"cluster", "node", "uuid", "serial", "model", "namespace", "pod", "pod_uid", "workload_kind", "workload_name", "manager", "unit", "username", "team", "queue", "cluster_queue", "labels", "reason", "hour"}

// allocationMethod identifies the method that splits the energy (see docs/energy.md).
const allocationMethod = "gpuledger-energy-1"

type sku struct {
	id, meter, unit string
	quantity        func(table.Charge) float64
	price           func(f factors.Factors, u factors.Use) float64
}

var skus = []sku{
	{
		"gpu-energy", "GPU Energy", "kWh", func(c table.Charge) float64 { return float64(c.Energy) / 3.6e9 },
		func(f factors.Factors, u factors.Use) float64 { u.Energy = 3_600_000_000; return costOf(f, u) },
	}, {
		"gpu-time", "GPU Hours", "Hours", func(c table.Charge) float64 { return float64(c.GPUTime) / 3.6e6 },
		func(f factors.Factors, u factors.Use) float64 { u.GPUTime = 3_600_000; return costOf(f, u) },
	},
}

func costOf(f factors.Factors, u factors.Use) float64 {
	cost, _ := f.Cost(u)
	return cost
}

// origin identifies the charge of one GPU, one day and one price. Pods share this charge.
type origin struct {
	day                                    time.Time
	cluster, node, uuid, serial, model, id string
	price                                  float64
}

// part is the share of a pod or unit in a charge. If owner.Reason is set, the part is unattributed.
type part struct {
	origin
	sku      sku
	owner    table.Charge // first charge of the part
	quantity float64
}

// focus returns a FOCUS row for each combination of GPU, day, price, and pod or unit. If split is set, each row is an
// allocated charge. The quantities and costs of these rows add up to the charge for the GPU.
func (q *question) focus(ctx context.Context, split bool) (print.Answer, error) {
	currency := q.factors.Prices.Currency()
	if len(currency) != 3 {
		return print.Answer{}, errors.New("--format=focus needs --prices with a currency such as EUR in the column currency")
	}
	a := &account{}
	a.of, a.notices = q.billed()
	a.of.By = detailColumns
	st, err := q.source.Statement(ctx, a.of)
	if err != nil {
		return print.Answer{}, err
	}
	answer := print.Answer{}
	if err := q.complete(a, st.Hours); err != nil {
		return answer, err
	}
	for i := range st.Charges {
		c := &st.Charges[i]
		if _, priced := q.factors.Cost(factors.Use{Cluster: c.Cluster, Model: c.Model, Hour: c.Hour, Energy: c.Energy, GPUTime: c.GPUTime}); !priced {
			a.unpriced.Add(c)
		}
	}
	a.checkPrices()
	answer.Notices = a.notices
	columns := focusColumns
	if split {
		columns = slices.Concat(focusColumns, splitColumns)
	}
	for _, name := range columns {
		answer.Columns = append(answer.Columns, print.Column{Name: name})
	}
	parts, totals := q.parts(st.Charges)
	for _, p := range parts {
		values := p.values(currency, a.of, split, totals[p.origin])
		row := make([]any, len(columns))
		for i, name := range columns {
			row[i] = values[name]
		}
		answer.Rows = append(answer.Rows, row)
	}
	return answer, nil
}

func (q *question) parts(charges []table.Charge) (parts []*part, totals map[origin]float64) {
	type key struct {
		origin
		namespace, pod, uid, manager, unit, reason string
	}
	known := make(map[key]*part)
	totals = make(map[origin]float64)
	for _, c := range charges {
		for _, s := range skus {
			quantity := s.quantity(c)
			price := s.price(q.factors, factors.Use{Cluster: c.Cluster, Model: c.Model, Hour: c.Hour})
			if quantity == 0 || s.id == "gpu-time" && price == 0 {
				continue
			}
			o := origin{c.Hour.Truncate(day), c.Cluster, c.Node, c.UUID, c.Serial, c.Model, s.id, price}
			k := key{o, c.Namespace, c.Pod, c.PodUID, c.Manager, c.Unit, c.Reason}
			if known[k] == nil {
				known[k] = &part{o, s, c, 0}
				parts = append(parts, known[k])
			}
			known[k].quantity += quantity
			totals[o] += quantity
		}
	}
	slices.SortStableFunc(parts, func(a, b *part) int {
		return cmp.Or(a.day.Compare(b.day), cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.node, b.node), cmp.Compare(a.uuid, b.uuid), cmp.Compare(a.id, b.id),
			cmp.Compare(a.price, b.price), cmp.Compare(a.owner.Reason, b.owner.Reason), cmp.Compare(a.owner.Namespace, b.owner.Namespace), cmp.Compare(a.owner.Pod, b.owner.Pod),
			cmp.Compare(a.owner.PodUID, b.owner.PodUID), cmp.Compare(a.owner.Manager, b.owner.Manager), cmp.Compare(a.owner.Unit, b.owner.Unit))
	})
	return parts, totals
}

func focusTime(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }

// values returns the values of a FOCUS row by column. Columns without a value are null.
func (p *part) values(currency string, of books.Query, split bool, total float64) map[string]any {
	month := time.Date(p.day.Year(), p.day.Month(), 1, 0, 0, 0, 0, time.UTC)
	account := cmp.Or(p.cluster, "default")
	cost := p.price * p.quantity
	begin, end := later(p.day, of.From), earlier(p.day.Add(day), of.Until)
	values := map[string]any{
		"BilledCost": cost, "ContractedCost": cost, "EffectiveCost": cost, "ListCost": cost,
		"BillingAccountId": account, "BillingAccountName": account, "BillingCurrency": currency,
		"BillingPeriodStart": focusTime(month), "BillingPeriodEnd": focusTime(month.AddDate(0, 1, 0)),
		"ChargeCategory": "Usage", "ChargeFrequency": "Usage-Based", "ChargePeriodStart": focusTime(begin), "ChargePeriodEnd": focusTime(end),
		"ChargeDescription": fmt.Sprintf("%s of %s %s", p.sku.meter, cmp.Or(p.model, "GPU"), cmp.Or(p.serial, p.uuid)),
		"ConsumedQuantity":  p.quantity, "ConsumedUnit": p.sku.unit, "PricingQuantity": p.quantity, "PricingUnit": p.sku.unit, "PricingCategory": "Standard",
		"ContractedUnitPrice": p.price, "ListUnitPrice": p.price, "SkuId": p.sku.id, "SkuMeter": p.sku.meter,
		"SkuPriceId":        strings.TrimSuffix(p.sku.id+"/"+p.model, "/"), // must not depend on the account, the time or the price
		"InvoiceIssuerName": account, "ProviderName": account, "PublisherName": account, "ServiceProviderName": account, "HostProviderName": account,
		"ResourceId": p.uuid, "ResourceName": cmp.Or(p.serial, p.uuid), "ResourceType": "GPU",
		"ServiceCategory": "Compute", "ServiceName": "GPU fleet", "ServiceSubcategory": "Containers",
	}
	place := map[string]string{"cluster": p.cluster, "node": p.node, "serial": p.serial, "model": p.model}
	c := &p.owner
	who := map[string]string{
		"namespace": c.Namespace, "pod": c.Pod, "workload_kind": c.WorkloadKind, "workload": c.WorkloadName, "team": c.Team, "manager": c.Manager, "unit": c.Unit, "user": c.Username,
		"queue": c.Queue, "cluster_queue": c.ClusterQueue,
	}
	maps.Copy(who, labelsOf(c.Labels))
	if !split {
		maps.Copy(place, who)
		place["reason"] = c.Reason
		if c.Namespace != "" {
			values["SubAccountId"], values["SubAccountName"] = c.Namespace, c.Namespace
		}
	}
	values["Tags"] = tags(place)
	if split {
		values["AllocatedMethodId"] = allocationMethod
		ratio := 0.0
		if total != 0 { // corrections can reduce a charge to 0
			ratio = p.quantity / total
		}
		details, _ := json.Marshal(map[string]any{"Elements": []map[string]any{{"AllocatedRatio": ratio, "UsageUnit": p.sku.unit, "UsageQuantity": p.quantity}}})
		values["AllocatedMethodDetails"] = string(details) // a map of texts and numbers is always valid JSON
		if c.Reason == "" {
			name := owner(c.Namespace, c.Pod, c.Manager, c.Unit)
			values["AllocatedResourceId"], values["AllocatedResourceName"] = cmp.Or(c.PodUID, name), name
			values["AllocatedTags"] = tags(who)
		}
	}
	return values
}

func tags(values map[string]string) string {
	some := make(map[string]string)
	for name, value := range values {
		if value != "" {
			some[name] = value
		}
	}
	text, _ := json.Marshal(some) // a map of texts and numbers is always valid JSON
	return string(text)
}
