package ask_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var check = fatal.If

var october = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

const kWh = 3_600_000_000 // mJ

// books writes an archive that contains two boards and two days. Two pods of different teams share board 1. Board 2 is
// idle.
func books(t *testing.T) (folder string) {
	t.Helper()
	return bookstest.File(t, "csv", hourly(48, func(_ int, h *table.Hour) {
		for i, serial := range []string{"1653924023101", "1653924023102"} {
			h.GPUs = append(h.GPUs, table.GPU{
				Node: "n1", UUID: fmt.Sprintf("GPU-%d", i+1), Serial: serial, ChassisSerial: "C1", PCIBusID: fmt.Sprintf("00000000:%d", i), Model: "H100", Energy: kWh / 2,
				First: h.Start.Add(time.Minute), Last: h.Start.Add(59 * time.Minute), Scrapes: 59,
			})
		}
		for i, who := range []string{"vision", "search"} {
			h.Charges = append(h.Charges, table.Charge{
				Node: "n1", UUID: "GPU-1", Serial: "1653924023101", Namespace: who, Pod: "p" + strconv.Itoa(i), PodUID: "uid-" + who, Team: who, WorkloadKind: "Job", WorkloadName: "job",
				Energy: kWh / 5, Exclusive: kWh / 5, Idle: int64(i) * kWh / 10, Held: 3_600_000, GPUTime: 1_800_000, Active: 900_000, Estimated: int64(i) * kWh / 20, Busy: 225_000,
			})
		}
		h.Charges = append(h.Charges,
			table.Charge{Node: "n1", UUID: "GPU-1", Serial: "1653924023101", Reason: "host", Energy: kWh / 10},
			table.Charge{Node: "n1", UUID: "GPU-2", Serial: "1653924023102", Reason: "idle", Energy: kWh / 2})
	})...)
}

type result struct {
	t        *testing.T
	args     []string
	status   int
	out, err string
}

func (r result) has(status int, texts ...string) {
	r.t.Helper()
	missing := slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return strings.Contains(r.out+r.err, text) })
	if r.status != status || len(missing) > 0 {
		r.t.Errorf("%q: exit status %d, want %d and %q:\n%s%s", r.args, r.status, status, missing, r.out, r.err)
	}
}

func (r result) lacks(texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		if strings.Contains(r.out+r.err, text) {
			r.t.Errorf("%q prints %q:\n%s%s", r.args, text, r.out, r.err)
		}
	}
}

func (r result) prints(status int, want string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.out); diff != "" || r.status != status {
		r.t.Errorf("%q: exit status %d, want %d, %s (-want +got):\n%s", r.args, r.status, status, r.err, diff)
	}
}

func (r result) records() (rows []map[string]string) {
	r.t.Helper()
	lines, err := csv.NewReader(strings.NewReader(r.out)).ReadAll()
	check(r.t, err)
	for _, line := range lines[min(1, len(lines)):] {
		row := make(map[string]string)
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func (r result) columns(names ...string) (rows []string) {
	r.t.Helper()
	for _, record := range r.records() {
		var values []string
		for _, name := range names {
			values = append(values, record[name])
		}
		rows = append(rows, strings.Join(values, ","))
	}
	return rows
}

func (r result) lists(columns []string, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.columns(columns...)); diff != "" {
		r.t.Errorf("%q: exit status %d (-want +got):\n%s%s", r.args, r.status, diff, r.err)
	}
}

func (r result) rows() []map[string]any {
	r.t.Helper()
	var answer struct{ Rows []map[string]any }
	if err := json.Unmarshal([]byte(r.out), &answer); err != nil || r.status != 0 {
		r.t.Fatalf("%q: exit status %d, %v: %s%s", r.args, r.status, err, r.out, r.err)
	}
	return answer.Rows
}

func run(t *testing.T, args ...string) result {
	t.Helper()
	return runAt(t, october.AddDate(0, 1, 2), "", args...)
}

// runAt runs a command at the given simulated time, with the given standard input.
func runAt(t *testing.T, now time.Time, input string, args ...string) result {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var out, errors bytes.Buffer
	status := ask.Run(t.Context(), args, ask.Terminal{In: strings.NewReader(input), Out: &out, Err: &errors, Program: "gpuledger-archive"}, now)
	return result{t, args, status, out.String(), errors.String()}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list.csv")
	check(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const prices = "from,until,cluster,model,per_kwh,per_gpu_hour,currency\n2026-01-01,,,,0.20,,EUR\n2026-01-01,,east,H100,,2,EUR\n2026-10-02,,,,0.30,,EUR\n"

// TestMonthEnds checks that a statement of the previous month has a notice during the first five minutes of a month.
// The samples of the last hour may still be missing then.
func TestMonthEnds(t *testing.T) {
	folder := books(t)
	const notice = "! incomplete: the period until 2026-11-01 00:00 has not ended, so the statement ends at 2026-10-31 23:00\n"
	for minute, want := range map[int]bool{0: true, 4: true, 5: false, 59: false} {
		now := october.AddDate(0, 1, 0).Add(time.Duration(minute) * time.Minute)
		for _, args := range [][]string{{"statement"}, {"statement", "--month=2026-10"}, {"verify"}} {
			if r := runAt(t, now, "", append(args, "--books="+folder)...); strings.Contains(r.out, notice) != want {
				t.Errorf("%v, minute %d: notice is %v\n%s%s", args, minute, !want, r.out, r.err)
			}
		}
	}
}

func TestStatement(t *testing.T) {
	folder := books(t)
	carbon := file(t, "Datetime (UTC),Country,Zone name,Zone id,Carbon intensity gCO₂eq/kWh (direct),Carbon intensity gCO₂eq/kWh (Life cycle)\n"+
		"2026-10-01 00:00:00,Germany,Germany,DE,300,400\n2026-10-02 00:00:00,Germany,Germany,DE,100,200\n")
	r := run(t, "statement", "--books="+folder, "--month=2026-10", "--prices="+file(t, prices), "--carbon="+carbon, "--pue=1.5")
	want := `TEAM            KWH     IDLE    MEASURED  ESTIMATED  GPU HOURS  ACTIVE HOURS  BUSY HOURS  COST EUR  KG CO2E
search          9.600   50.0 %  100.0 %   25.0 %     24.00      12.00         3.00        51.60     4.32
vision          9.600   0.0 %   100.0 %   0.0 %      24.00      12.00         3.00        51.60     4.32
(unattributed)  28.800  0.0 %   0.0 %     0.0 %      0.00       0.00          0.00        10.80     12.96
TOTAL           48.000  10.0 %  40.0 %    5.0 %      48.00      24.00         6.00        114.00    21.60
! incomplete: 696 of 744 hours of east are missing (first hour: 2026-10-03 00:00): file them with gpuledger-archive once --from
`
	r.prints(0, want)
	r = run(t, "statement", "--books="+folder, "--month=2026-10", "-o", "csv", "--by=cluster")
	want = "line,cluster,energy_mj,idle_mj,exclusive_mj,estimated_mj,idle_share,measured_share,estimated_share,gpu_ms,active_ms,busy_ms,complete\n"
	if !strings.HasPrefix(r.out, want) || !strings.Contains(r.out, "total,TOTAL,172800000000,17280000000,69120000000,8640000000,0.1,0.4,0.05,172800000,86400000,21600000,false\n") || !strings.Contains(r.err, "incomplete") {
		t.Errorf("CSV:\n%s%s", r.out, r.err)
	}
}

// TestIdleTotal checks that the total idle time is the sum of the groups' idle times. Two pods that share a GPU are
// each charged half of its GPU time, but both may be active all the time. Their activity must not reduce the idle time
// of another team.
func TestIdleTotal(t *testing.T) {
	h := &table.Hour{Cluster: "east", Start: october}
	for i, c := range []table.Charge{
		{UUID: "GPU-1", Pod: "a", Team: "blue", GPUTime: 3_600_000},
		{UUID: "GPU-2", Pod: "b", Team: "red", GPUTime: 1_800_000, Active: 3_600_000},
		{UUID: "GPU-2", Pod: "c", Team: "red", GPUTime: 1_800_000, Active: 3_600_000},
	} {
		c.Node, c.Namespace, c.PodUID, c.Held = "n1", "ml", c.Pod, 3_600_000
		h.Charges = append(h.Charges, c)
		if i < 2 {
			h.GPUs = append(h.GPUs, table.GPU{Node: "n1", UUID: c.UUID, First: october, Last: october, Scrapes: 1})
		}
	}
	list := file(t, "from,until,cluster,model,per_kwh,per_gpu_hour,currency\n,,,,,2,EUR\n")
	r := run(t, "idle", "--by=team", "--from=2026-10-01", "--to=2026-10-01T01", "--prices="+list, "--books="+bookstest.File(t, "csv", h))
	want := `TEAM   IDLE KWH  IDLE GPU HOURS  GPU HOURS  COST EUR
blue   0.000     1.00            1.00       2.00
red    0.000     0.00            1.00       0.00
TOTAL  0.000     1.00            2.00       2.00
`
	r.prints(0, want)
}

func TestUnits(t *testing.T) {
	h := &table.Hour{Cluster: "east", Start: october, GPUs: []table.GPU{
		{Node: "n1", UUID: "GPU-1", Serial: "S1", Energy: kWh, First: october.Add(time.Minute), Last: october.Add(59 * time.Minute), Scrapes: 59},
	}, Charges: []table.Charge{
		{Node: "n1", UUID: "GPU-1", Serial: "S1", Namespace: "ml", Pod: "p", PodUID: "u", Team: "blue", Energy: kWh / 4},
		{Node: "n1", UUID: "GPU-1", Serial: "S1", Manager: "slurm", Unit: "4711", Team: "physics", Username: "alice", Energy: kWh / 2, GPUTime: 3_600_000, Busy: 1_800_000, Estimated: kWh / 8},
		{Node: "n1", UUID: "GPU-1", Serial: "S1", Reason: "idle", Energy: kWh / 4},
	}}
	folder := bookstest.File(t, "csv", h)
	for question, want := range map[string]string{
		"ran --unit=slurm/4711": `CLUSTER  MANAGER  UNIT  USER   TEAM     NODE  SERIAL  FROM              LAST HOUR         KWH    IDLE KWH  GPU HOURS  ACTIVE HOURS  BUSY HOURS
east     slurm    4711  alice  physics  n1    S1      2026-10-01 00:00  2026-10-01 00:00  0.500  0.000     1.00       0.00          0.50
`,
		"statement --by=unit --from=2026-10-01": `MANAGER         UNIT  KWH    IDLE   MEASURED  ESTIMATED  GPU HOURS  ACTIVE HOURS  BUSY HOURS
-               -     0.250  0.0 %  0.0 %     0.0 %      0.00       0.00          0.00
slurm           4711  0.500  0.0 %  0.0 %     25.0 %     1.00       0.00          0.50
(unattributed)  -     0.250  0.0 %  0.0 %     0.0 %      0.00       0.00          0.00
TOTAL           -     1.000  0.0 %  0.0 %     12.5 %     1.00       0.00          0.50
`,
		"statement --by=user --from=2026-10-01": `USER            KWH    IDLE   MEASURED  ESTIMATED  GPU HOURS  ACTIVE HOURS  BUSY HOURS
-               0.250  0.0 %  0.0 %     0.0 %      0.00       0.00          0.00
alice           0.500  0.0 %  0.0 %     25.0 %     1.00       0.00          0.50
(unattributed)  0.250  0.0 %  0.0 %     0.0 %      0.00       0.00          0.00
TOTAL           1.000  0.0 %  0.0 %     12.5 %     1.00       0.00          0.50
`,
	} {
		run(t, append(strings.Fields(question), "--books="+folder, "--to=2026-10-01T01")...).prints(0, want)
	}
	for question, want := range map[string]string{"where S1": "slurm/4711 ml/p", "ran S1": "slurm    4711  alice"} {
		run(t, append(strings.Fields(question), "--books="+folder, "--to=2026-10-01T01")...).has(0, want)
	}
	run(t, "statement", "--books="+folder, "--from=2026-10-01", "--to=2026-10-01T01", "--format=focus", "--prices="+file(t, prices)).
		has(0, `"{""manager"":""slurm"",""team"":""physics"",""unit"":""4711"",""user"":""alice""}"`, ",slurm/4711,slurm/4711,")
}

func TestIdle(t *testing.T) {
	r := run(t, "idle", "--books="+books(t), "--from=2026-10-01", "--to=2026-10-03", "--prices="+file(t, prices))
	want := `NAMESPACE  IDLE KWH  OF ITS ENERGY  IDLE GPU HOURS  GPU HOURS  COST EUR
search     4.800     50.0 %         12.00           24.00      25.20
vision     0.000     0.0 %          12.00           24.00      24.00
TOTAL      4.800     25.0 %         24.00           48.00      49.20
`
	r.prints(0, want)
}

// TestUnknown checks the exit status and the error for names that the archive does not contain.
func TestUnknown(t *testing.T) {
	folder := books(t)
	assets := file(t, "Name,Serial number,Asset tag,cf_warranty_end\nboard,1653924023102,AT-7,2029-01-01\n")
	for _, tt := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"where", "1653924023110"}, 1, `did you mean 1653924023101, 1653924023102?`},
		{[]string{"where", "1653924023012"}, 1, `did you mean 1653924023102, 1653924023101?`},
		{[]string{"where", "nothing"}, 1, "check the name, or set --since"},
		{[]string{"where", "AT-7", "--assets=" + assets}, 0, "1653924023102  AT-7"},
		{[]string{"where"}, 2, "where needs SERIAL"},
		{[]string{"where", "1653924023102", "--at=yesterday"}, 2, "must be a time in UTC"},
		{[]string{"ran", "a", "b"}, 2, `unexpected argument "b"`},
		{[]string{"statement", "--by=users"}, 1, "must be one or more of team"},
		{[]string{"ran", "--unit=4711"}, 1, "must be manager/unit"},
		{[]string{"ran", "--unit=slurm/4712"}, 1, "slurm/4712 used no GPU from"},
		{[]string{"statement", "--month=2026-12"}, 1, "has not ended"},
		{[]string{"statement", "--month=2026-08"}, 1, "has no hours"},
		{[]string{"ran", "--pod=vision"}, 1, "must be namespace/pod"},
		{[]string{"ran", "--pod=vision/p9"}, 1, "check the name"},
		{[]string{"ran"}, 1, "needs a board"},
		{[]string{"where", "1653924023102", "--prices=x"}, 2, "not defined"},
		{[]string{"statement", "--prices=" + file(t, "from,per_kwh\n2026-13-01,1\n")}, 2, "line 2"},
		{[]string{"statement", "--pue=0.5"}, 2, "must be a number from 1 to 10"},
	} {
		args := append(slices.Clone(tt.args), "--books="+folder)
		if tt.args[0] != "statement" {
			args = append(args, "--to=2026-10-03")
		}
		r := run(t, args...)
		if r.has(tt.status, tt.text); strings.Count(r.err, "\n") > 1 {
			t.Errorf("%v: the error has several lines:\n%s", tt.args, r.err)
		}
	}
}

func TestConfig(t *testing.T) {
	folder := books(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	check(t, os.WriteFile(config, []byte("books: "+folder+"\ntz: Europe/Berlin\n"), 0o600))
	question := []string{"where", "1653924023101", "--to=2026-10-03"}
	run(t, append(question, "--config="+config)...).has(0, "2026-10-01 02:01")
	t.Setenv("GPULEDGER_TZ", "America/New_York")
	run(t, append(question, "--config="+config)...).has(0, "2026-09-30 20:01")
	run(t, append(question, "--config="+config, "--tz=UTC")...).has(0, "2026-10-01 00:01")
	check(t, os.WriteFile(config, []byte("book: x\n"), 0o600))
	run(t, append(question, "--config="+config)...).has(2, `unknown name "book"`)
}

// FOCUS requires the first columns, allows empty values in the second columns, and defines these formats of values.
var (
	focusMandatory = []string{
		"BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription",
		"ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost", "PricingQuantity", "PricingUnit", "ProviderName",
		"PublisherName", "ServiceCategory", "ServiceName",
	}
	focusNullable = []string{"ChargeClass", "RegionId", "RegionName", "SubAccountId", "SubAccountName", "AllocatedResourceId", "AllocatedResourceName", "AllocatedTags"}
	focusFormats  = map[string]string{
		"Cost$|Quantity$|UnitPrice$": `^-?\d+(\.\d+)?(e-?\d+)?$`, "Start$|End$": `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, "Currency$": `^[A-Z]{3}$`,
		"^ChargeCategory$": "^(Usage|Purchase|Tax|Credit|Adjustment)$", "^ChargeClass$": "^(Correction)?$", "^ChargeFrequency$": "^(One-Time|Recurring|Usage-Based)$",
		"^PricingCategory$": "^(Standard|Dynamic|Committed|Other)$", "^ServiceCategory$": "^Compute$", "^ServiceSubcategory$": `^(Containers|Other \(Compute\))$`,
	}
)

func TestReport(t *testing.T) {
	folder := books(t)
	for format, parts := range map[string][]string{
		"markdown": {"# Board 1653924023101\n", "## Stays", "| 1653924023101 | east | n1 |", "## Use by pods and units", "RMA-1: 1653924023101 returned for 99"},
		"html":     {"<h1>Board 1653924023101</h1>", "<td>vision</td>", "@page", "</html>"},
	} {
		run(t, "report", "1653924023101", "--books="+folder, "--to=2026-10-03", "-o", format, "--rma="+file(t, "old_serial,new_serial,rma\n1653924023101,99,RMA-1\n")).has(0, parts...)
	}
}

// TestDocumented checks that docs/ask.md contains every command, column and flag. A flag may be missing if
// docs/flags.md contains it. docs/flags.md lists the flags of the store.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/ask.md")
	check(t, err)
	filing, err := os.ReadFile("../../../docs/flags.md")
	check(t, err)
	for name, flags := range ask.Flags() {
		if !strings.Contains(string(text), "`"+name) {
			t.Errorf("command %s is not documented", name)
		}
		flags.VisitAll(func(f *flag.Flag) {
			if !strings.Contains(string(text), "-"+f.Name) && !strings.Contains(string(filing), "`--"+f.Name+"=") {
				t.Errorf("flag --%s of %s is not documented", f.Name, name)
			}
		})
	}
	folder := books(t)
	for _, question := range []string{"where n1", "history n1", "ran n1", "statement --from=2026-10-01 --prices=P --carbon=C", "idle --from=2026-10-01 --prices=P", "moves", "missing", "verify --from=2026-10-01", "capacity --from=2026-10-01", "capacity --age", "capacity --failures"} {
		question = strings.NewReplacer("=P", "="+file(t, prices), "=C", "="+file(t, "from,grams_per_kwh\n2026-01-01,1\n")).Replace(question)
		head, _, _ := strings.Cut(run(t, append(strings.Fields(question), "--books="+folder, "--to=2026-10-03", "-o", "csv")...).out, "\n")
		for column := range strings.SplitSeq(head, ",") {
			if !strings.Contains(string(text), "`"+column+"`") {
				t.Errorf("column %s of %s is not documented", column, question)
			}
		}
	}
}
