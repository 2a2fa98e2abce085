package ask_test

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestFOCUS checks the rows against versions 1.2 and 1.3 of the specification. It checks columns, types and allowed
// values. It also checks that the cost is price times quantity, and that the parts of a GPU's charge add up.
func TestFOCUS(t *testing.T) {
	folder, list := books(t), file(t, prices)
	for _, format := range []string{"focus-1.2", "focus"} {
		r := run(t, "statement", "--books="+folder, "--from=2026-10-01", "--to=2026-10-03", "--prices="+list, "--pue=1.5", "--format="+format)
		r.has(0)
		mandatory := focusMandatory
		if format == "focus" {
			mandatory = append(slices.Clone(mandatory), "HostProviderName", "ServiceProviderName", "AllocatedMethodId")
		}
		total, ratios := 0.0, make(map[string]float64)
		for _, row := range r.records() {
			checkFOCUS(t, row, mandatory)
			total += number(t, row["EffectiveCost"])
			if format == "focus" {
				ratios[row["ResourceId"]+row["ChargePeriodStart"]+row["SkuPriceId"]] += allocated(t, row)
			}
		}
		if math.Abs(total-114) > 1e-9 {
			t.Errorf("%s: the costs are %v, want 114 as in the statement", format, total)
		}
		for charge, ratio := range ratios {
			if math.Abs(ratio-1) > 1e-9 {
				t.Errorf("the ratios of %s add up to %v, want 1", charge, ratio)
			}
		}
	}
	run(t, "statement", "--books="+folder, "--from=2026-10-01", "--to=2026-10-03", "--format=focus").has(1, "needs --prices")
}

func checkFOCUS(t *testing.T, row map[string]string, mandatory []string) {
	t.Helper()
	for _, name := range mandatory {
		if _, ok := row[name]; !ok {
			t.Errorf("column %s is missing", name)
		}
	}
	for name, value := range row {
		if value == "" && !slices.Contains(focusNullable, name) {
			t.Errorf("%s is null", name)
		}
		for names, format := range focusFormats {
			if regexp.MustCompile(names).MatchString(name) && !regexp.MustCompile(format).MatchString(value) {
				t.Errorf("%s is %q, want %s", name, value, format)
			}
		}
		if strings.HasSuffix(name, "Tags") && value != "" {
			check(t, json.Unmarshal([]byte(value), new(map[string]string)))
		}
	}
	if want := number(t, row["ContractedUnitPrice"]) * number(t, row["PricingQuantity"]); math.Abs(want-number(t, row["ContractedCost"])) > 1e-12 {
		t.Errorf("ContractedCost is %s, want %v", row["ContractedCost"], want)
	}
	if row["ChargePeriodStart"] >= row["ChargePeriodEnd"] || row["BillingPeriodStart"] > row["ChargePeriodStart"] || row["BillingPeriodEnd"] < row["ChargePeriodEnd"] {
		t.Errorf("periods: %v", row)
	}
}

func allocated(t *testing.T, row map[string]string) float64 {
	t.Helper()
	var details struct {
		Elements []struct {
			AllocatedRatio, UsageQuantity float64
			UsageUnit                     string
		}
	}
	check(t, json.Unmarshal([]byte(row["AllocatedMethodDetails"]), &details))
	if row["AllocatedMethodId"] == "" || len(details.Elements) != 1 || details.Elements[0].UsageUnit == "" {
		t.Errorf("AllocatedMethodDetails is %s", row["AllocatedMethodDetails"])
	}
	return details.Elements[0].AllocatedRatio
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	check(t, err)
	return n
}

// TestImpact checks the rows for the Impact Framework. Their energy is already multiplied by the PUE, so that the
// carbon equals the energy times the carbon intensity.
func TestImpact(t *testing.T) {
	carbon := file(t, "from,zone,grams_per_kwh\n2026-10-01,DE,400\n")
	for pue, want := range map[string]string{"1": "0.2,400,80", "2": "0.4,400,160"} {
		r := run(t, "statement", "--books="+books(t), "--from=2026-10-01", "--to=2026-10-01T01", "--carbon="+carbon, "--pue="+pue, "--format=impact-framework")
		r.has(0, "component,timestamp,duration,energy,grid/carbon-intensity,carbon\neast/search,2026-10-01T00:00:00Z,3600,"+want+"\n")
	}
}

// TestImpactMerged checks that each component has only one row per hour, because rows of a component must not overlap.
// Two pods have the same cost center but different projects. Energy is unattributed for two reasons.
func TestImpactMerged(t *testing.T) {
	h := &table.Hour{Cluster: "east", Start: october, GPUs: []table.GPU{{Node: "n1", UUID: "GPU-1", Energy: kWh, First: october, Last: october, Scrapes: 1}}, Charges: []table.Charge{
		{Node: "n1", UUID: "GPU-1", Namespace: "ml", Pod: "a", PodUID: "a", Labels: "cost_center=4711,project=moon", Energy: kWh / 2},
		{Node: "n1", UUID: "GPU-1", Namespace: "ml", Pod: "b", PodUID: "b", Labels: "cost_center=4711,project=mars", Energy: kWh / 4},
		{Node: "n1", UUID: "GPU-1", Reason: "host", Energy: kWh / 8},
		{Node: "n1", UUID: "GPU-1", Reason: "idle", Energy: kWh / 8},
	}}
	carbon := file(t, "from,zone,grams_per_kwh\n2026-10-01,DE,400\n")
	r := run(t, "statement", "--books="+bookstest.File(t, "csv", h), "--from=2026-10-01", "--to=2026-10-01T01", "--by=label:cost-center", "--carbon="+carbon, "--format=impact-framework")
	want := `component,timestamp,duration,energy,grid/carbon-intensity,carbon
east/4711,2026-10-01T00:00:00Z,3600,0.75,400,300
east/unattributed,2026-10-01T00:00:00Z,3600,0.25,400,100
`
	lines := strings.SplitAfter(r.out, "\n")
	slices.Sort(lines[1:])
	if diff := cmp.Diff(want, strings.Join(lines, "")); diff != "" || r.status != 0 {
		t.Errorf("exit status %d, %s (-want +got):\n%s", r.status, r.err, diff)
	}
}

// TestUnpriced checks the notice about use without a price. The prices begin a day after the data.
func TestUnpriced(t *testing.T) {
	list := file(t, "from,until,cluster,model,per_kwh,per_gpu_hour,currency\n2026-10-02,,,,0.3,2,EUR\n")
	for _, format := range []string{"", "focus", "focus-1.2"} {
		run(t, "statement", "--books="+books(t), "--from=2026-10-01", "--to=2026-10-03", "--prices="+list, "--format="+format, "-o", "csv").
			has(0, "incomplete: 24.000 kWh and 24.00 GPU hours have no price in --prices\n")
	}
}

// TestSkuPrice checks the rules for SkuPriceId in FOCUS 1.2. The id must always be the same, also in different billing
// accounts. It must belong to one SkuId. It must not contain a price, because the unit prices have their own columns.
func TestSkuPrice(t *testing.T) {
	folder := bookstest.File(t, "csv", hourly(3, func(n int, h *table.Hour) {
		h.Cluster = []string{"east", "west", "east"}[n]
		for i, model := range []string{"H100", "A100"} {
			uuid := fmt.Sprint("GPU-", h.Cluster, i)
			h.GPUs = append(h.GPUs, table.GPU{Node: "n1", UUID: uuid, Model: model, Energy: kWh, First: h.Start, Last: h.Start, Scrapes: 1})
			h.Charges = append(h.Charges, table.Charge{Node: "n1", UUID: uuid, Namespace: "ml", Pod: "p", PodUID: "u", Energy: kWh, GPUTime: 3_600_000})
		}
	})...)
	list := file(t, "from,cluster,per_kwh,per_gpu_hour,currency\n2026-10-01,,0.2,2,EUR\n2026-10-01,west,0.3,3,EUR\n2026-10-01T02:00,,0.4,4,EUR\n")
	for _, format := range []string{"focus-1.2", "focus"} {
		unitPrices := make(map[string]map[string]bool)
		for _, row := range run(t, "statement", "--books="+folder, "--from=2026-10-01", "--to=2026-10-01T03", "--prices="+list, "--format="+format).records() {
			id, price := row["SkuPriceId"], row["ContractedUnitPrice"]
			if unitPrices[id] == nil {
				unitPrices[id] = make(map[string]bool)
			}
			unitPrices[id][price] = true
			if sku := row["SkuId"]; !strings.HasPrefix(id, sku) || row["ListUnitPrice"] != price {
				t.Errorf("%s: %s of %s costs %s, the list price is %s", format, id, sku, price, row["ListUnitPrice"])
			}
		}
		energy, hours := map[string]bool{"0.2": true, "0.3": true, "0.4": true}, map[string]bool{"2": true, "3": true, "4": true}
		want := map[string]map[string]bool{"gpu-energy/H100": energy, "gpu-energy/A100": energy, "gpu-time/H100": hours, "gpu-time/A100": hours}
		if diff := cmp.Diff(want, unitPrices); diff != "" {
			t.Errorf("%s: unit prices by SkuPriceId (-want +got):\n%s", format, diff)
		}
	}
}
