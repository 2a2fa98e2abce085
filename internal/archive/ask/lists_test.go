package ask_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// largest writes two hours. One hour has the largest possible energy and time. The other hour has the smallest possible
// energy and time.
func largest(f *testing.F) string {
	f.Helper()
	return bookstest.File(f, "csv", hourly(2, func(n int, h *table.Hour) {
		g := present(h.Start, "n1", "GPU-"+strconv.Itoa(n), "0", "H100")
		g.Energy = []int64{math.MaxInt64 - 10, 1}[n]
		h.GPUs = []table.GPU{g}
		h.Charges = []table.Charge{{
			Node: "n1", UUID: g.UUID, Serial: g.Serial, Namespace: "ml", Pod: "p", PodUID: "u", Team: "t" + strconv.Itoa(n), Energy: g.Energy, Idle: g.Energy, GPUTime: g.Energy,
		}}
	})...)
}

// rows returns the rows of a JSON answer. It returns no rows if the command rejects the list.
func rows(t *testing.T, folder string, args ...string) []map[string]any {
	t.Helper()
	r := run(t, append(args, "--books="+folder, "--from=2026-10-01", "--to=2026-10-01T02", "-o", "json")...)
	if r.status == 2 {
		return nil
	}
	return r.rows()
}

// most is the largest possible cost: the cost of 2^63 mJ (2.6e9 kWh) and 2^63 ms (2.6e12 hours) at the largest price
// and a PUE of 10.
const most = (2.6e9*10 + 2.6e12) * 1e9

// checkSums checks that values are neither negative nor too large, and that they add up to the total.
func checkSums(t *testing.T, rows []map[string]any, column string) {
	t.Helper()
	sum := 0.0
	for i, row := range rows {
		n, ok := row[column].(float64)
		if !ok || n < 0 || n > most {
			t.Errorf("%s of %v is %v", column, row["line"], row[column])
		}
		if i < len(rows)-1 {
			sum += n
		} else if math.Abs(sum-n) > 1e-5+1e-12*sum {
			t.Errorf("the sum of %s is %v, the total %v", column, sum, n)
		}
	}
}

func FuzzPrices(f *testing.F) {
	folder := largest(f)
	f.Add("from,until,cluster,model,per_kwh,per_gpu_hour,currency\n2026-10-01,,,,0.2,2,EUR\n2026-10-01T01:00,,east,H100,1e9,1e9,EUR\n")
	f.Add("per_kwh,currency\n1e999,EUR\n")
	f.Add("per_gpu_hour,currency\nNaN,EUR\n")
	f.Add("per_kwh,per_gpu_hour,currency\n1e9,1e-320,EUR\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := file(t, text)
		checkSums(t, rows(t, folder, "statement", "--prices="+path, "--pue=10"), "cost")
		checkSums(t, rows(t, folder, "idle", "--prices="+path, "--pue=10"), "idle_cost")
		r := run(t, "statement", "--prices="+path, "--books="+folder, "--from=2026-10-01", "--to=2026-10-01T02", "--format=focus")
		if r.status != 0 {
			return // the list contains no currency
		}
		for _, row := range r.records() {
			if cost := number(t, row["BilledCost"]); !(cost >= 0 && cost <= most) {
				t.Errorf("billed cost %v", cost)
			}
		}
	})
}

func FuzzCarbon(f *testing.F) {
	folder := largest(f)
	f.Add("from,until,zone,grams_per_kwh\n2026-10-01,,DE,1e9\n2026-10-01T01:00,,DE,1e-320\n")
	f.Add("Datetime (UTC),Zone id,Carbon intensity gCO₂eq/kWh (direct)\n2026-10-01,DE,3\n")
	f.Add("from,grams_per_kwh\n2026-10-01,Inf\n0001-01-01,1\n9999-12-31,2\n")
	f.Fuzz(func(t *testing.T, text string) {
		answer := rows(t, folder, "statement", "--carbon="+file(t, text), "--pue=10")
		checkSums(t, answer, "co2e_grams")
		checkSums(t, answer, "co2e_kg")
	})
}

// FuzzAssets checks that a list of assets can add a tag to a board, but cannot add a board.
func FuzzAssets(f *testing.F) {
	folder := largest(f)
	f.Add("serial,tag,warranty\nS1,T1,2029-01-01\n")
	f.Add("\ufeffserial number;asset tag\nS1;\"a\nb\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		answer := rows(t, folder, "where", "GPU-1", "--assets="+file(t, text))
		for _, row := range answer {
			if tag := row["asset_tag"].(string); row["serial"] != "S1" || len(tag) > 3*1024 || !strings.Contains(strings.ToValidUTF8(text, "\ufffd"), strings.Trim(tag, "\ufffd")) && !strings.ContainsAny(tag, "\"\n\ufffd") {
				t.Errorf("%v", row)
			}
		}
		if len(answer) > 1 {
			t.Errorf("%d boards", len(answer))
		}
	})
}

// FuzzRMA runs the command "missing" with any list of returned boards.
func FuzzRMA(f *testing.F) {
	folder := largest(f)
	f.Add("old_serial,new_serial,rma\nS0,S1,R-1\n")
	f.Add("old,new\nS0,\n,S1\n")
	f.Fuzz(func(t *testing.T, text string) {
		for i, row := range rows(t, folder, "missing", "--rma="+file(t, text)) {
			if note, ok := row["rma"].(string); i > 0 || row["serial"] != "S0" || !ok || note != "" && !strings.Contains(note, "S0 returned") {
				t.Errorf("%v", row)
			}
		}
	})
}
