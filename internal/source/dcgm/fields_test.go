package dcgm_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source/dcgm"
)

var fieldsByName = cmpopts.IgnoreUnexported(dcgm.Field{})

func parse(t *testing.T, text string) []dcgm.Field {
	t.Helper()
	fields, err := dcgm.ParseFields(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

func TestParseFields(t *testing.T) {
	tests := map[string]struct {
		text string
		want []dcgm.Field
		err  string
	}{
		"empty":    {"# nothing\n\n", nil, ""},
		"a row":    {"DCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C).", []dcgm.Field{{Name: "DCGM_FI_DEV_GPU_TEMP", Type: dcgm.Gauge, Help: "GPU temperature (in C)."}}, ""},
		"old name": {"dcgm_power_usage,gauge,W", []dcgm.Field{{Name: "dcgm_power_usage", Type: dcgm.Gauge, Help: "W"}}, ""},
		"a label":  {"DCGM_FI_DRIVER_VERSION, label, Driver", []dcgm.Field{{Name: "DCGM_FI_DRIVER_VERSION", Type: dcgm.Label, Help: "Driver"}}, ""},
		"quotes":   {`DCGM_FI_DEV_GPU_TEMP, gauge, "in C, of the ""die"""`, []dcgm.Field{{Name: "DCGM_FI_DEV_GPU_TEMP", Type: dcgm.Gauge, Help: `in C, of the "die"`}}, ""},
		"an unterminated quote": {
			"DCGM_FI_DEV_GPU_TEMP, gauge, \"in C\nDCGM_FI_DEV_FB_USED, gauge, x\nDCGM_FI_NOPE, gauge, x\r\n",
			[]dcgm.Field{{Name: "DCGM_FI_DEV_FB_USED", Type: dcgm.Gauge, Help: "x"}},
			"line 1: extraneous or missing \" in quoted-field; line 3: DCGM has no field DCGM_FI_NOPE",
		},
		"Latin-1": {
			"DCGM_FI_DEV_FB_USED, gauge, x\n\nDCGM_FI_DEV_GPU_TEMP, gauge, in \xb0C",
			[]dcgm.Field{{Name: "DCGM_FI_DEV_FB_USED", Type: dcgm.Gauge, Help: "x"}},
			"line 3: DCGM_FI_DEV_GPU_TEMP: help is not valid UTF-8",
		},
		"one valid line, the others invalid": {
			"DCGM_FI_NOPE, gauge, x\n# comment\nDCGM_EXP_XID_ERRORS_COUNT, gauge, x\nDCGM_FI_DEV_GPU_TEMP, gauge, x\nDCGM_FI_DEV_GPU_TEMP, counter, x\nDCGM_FI_DEV_FB_USED, histogram, x\nDCGM_FI_DEV_FB_FREE",
			[]dcgm.Field{{Name: "DCGM_FI_DEV_GPU_TEMP", Type: dcgm.Gauge, Help: "x"}},
			"line 1: DCGM has no field DCGM_FI_NOPE; line 3: DCGM_EXP_XID_ERRORS_COUNT is a metric of dcgm-exporter, not a DCGM field; " +
				"line 5: DCGM_FI_DEV_GPU_TEMP is listed twice; line 6: DCGM_FI_DEV_FB_USED: type must be gauge, counter or label, got \"histogram\"; line 7: line must have 3 columns (name, type, help), got 1",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := dcgm.ParseFields(strings.NewReader(tt.text))
			if diff := cmp.Diff(tt.want, got, fieldsByName); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Errorf("error is %v\nwant     %s", err, tt.err)
			}
		})
	}
}

func TestManyFields(t *testing.T) {
	for n, want := range map[int]string{128: "", 129: "129 gauge and counter fields, but a host engine accepts at most 128"} {
		fields, err := dcgm.ParseFields(strings.NewReader("DCGM_FI_DRIVER_VERSION, label, x\n" + many(t, n)))
		if want == "" && (err != nil || len(fields) != n+1) || want != "" && (err == nil || err.Error() != want || fields != nil) {
			t.Errorf("%d fields: %d were parsed, error is %v", n, len(fields), err)
		}
	}
	e := newEngine(t, pair()...)
	e.cfg.Fields = parse(t, many(t, 128))
	if n := len(gputest.Read(t, e.open()).Fields.Fields); n != 128 {
		t.Errorf("%d fields are on the page", n)
	}
}

// many returns a field file with n rows. n must be at most 129.
func many(t *testing.T, n int) string {
	t.Helper()
	rows := []string{"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_MEM_COPY_UTIL"}
	for _, family := range []string{"TX_THROUGHPUT", "RX_THROUGHPUT", "THROUGHPUT", "REPLAY_ERROR_COUNT", "RECOVERY_ERROR_COUNT", "CRC_FLIT_ERROR_COUNT", "CRC_DATA_ERROR_COUNT"} {
		for link := range 18 {
			rows = append(rows, fmt.Sprintf("DCGM_FI_DEV_NVLINK_%s_L%d", family, link))
		}
	}
	return strings.Join(rows[:n], ", gauge, x\n") + ", gauge, x\n"
}

// All rows in the built-in file must be valid, even rows in comments.
func TestDefaultFields(t *testing.T) {
	if n := len(parse(t, dcgm.DefaultFields)); n != 25 {
		t.Errorf("%d fields, but docs/dcgm.md states 25", n)
	}
	var all strings.Builder
	for lines := bufio.NewScanner(strings.NewReader(dcgm.DefaultFields)); lines.Scan(); {
		all.WriteString(strings.TrimPrefix(lines.Text(), "# DCGM") + "\n")
	}
	if n := len(parse(t, strings.ReplaceAll(all.String(), "\n_FI_", "\nDCGM_FI_"))); n != 25+9+5+2 {
		t.Errorf("%d fields including comments", n)
	}
}

func FuzzParseFields(f *testing.F) {
	f.Add(dcgm.DefaultFields)
	f.Add("\"a, b\nDCGM_FI_DEV_GPU_TEMP, gauge, x")
	f.Fuzz(func(t *testing.T, text string) {
		fields, err := dcgm.ParseFields(strings.NewReader(text))
		if err != nil && err.Error() == "" {
			t.Error("an error is empty")
		}
		seen := make(map[string]bool)
		for _, f := range fields {
			if seen[f.Name] || !strings.Contains(text, f.Name) {
				t.Errorf("field %q", f.Name)
			}
			seen[f.Name] = true
		}
	})
}

// page returns the values of the field page by field and instance.
func page(t *testing.T, s enriched) map[string]map[string]float64 {
	t.Helper()
	p := gputest.Read(t, s).Fields
	if p == nil {
		t.Fatal("there is no page")
	}
	out := make(map[string]map[string]float64)
	for _, row := range p.Rows {
		for i, v := range row.Values {
			name := p.Fields[i].Name
			if v == nil {
				continue
			}
			if out[name] == nil {
				out[name] = make(map[string]float64)
			}
			out[name][row.UUID[len(row.UUID)-1:]+row.GPUInstance] = *v
		}
	}
	return out
}

// Missing values must be omitted. The fields include some that the ledger also uses.
func TestPage(t *testing.T) {
	e := newEngine(t, gputest.Busy(0), gputest.Full(1))
	e.cfg.Fields = parse(t, "DCGM_FI_DEV_GPU_TEMP, gauge, x\ndcgm_pcie_replay_counter, counter, x\nDCGM_FI_DEV_PCIE_REPLAY_COUNTER, counter, x\nDCGM_FI_PROF_SM_ACTIVE, gauge, x\n"+
		"DCGM_FI_DEV_SERIAL, label, x\nDCGM_FI_DRIVER_VERSION, label, x\nDCGM_FI_DEV_NAME, gauge, no number\nDCGM_FI_DEV_ECC_DBE_VOL_TOTAL, counter, x")
	e.fault(e.node.GPUs[1].Device.UUID, "field:202", "blank")
	s := e.open()
	want := map[string]map[string]float64{
		"DCGM_FI_DEV_GPU_TEMP":   {"0": 41, "1": 42},
		"DCGM_FI_PROF_SM_ACTIVE": {"02": 0.5, "09": 1},
	}
	if diff := cmp.Diff(want, page(t, s)); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	p := gputest.Read(t, s).Fields
	fields := []gpu.PageField{
		{Name: "DCGM_FI_DEV_GPU_TEMP", Help: "x"},
		{Name: "dcgm_pcie_replay_counter", Help: "x", Counter: true},
		{Name: "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", Help: "x", Counter: true},
		{Name: "DCGM_FI_PROF_SM_ACTIVE", Help: "x"},
		{Name: "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", Help: "x", Counter: true},
	}
	if diff := cmp.Diff(fields, p.Fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{e.node.GPUs[0].Device.Serial, "570.86.15"}, p.Rows[0].Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if n := strings.Count(e.logged.String(), "DCGM_FI_DEV_NAME: not a number"); n != 1 {
		t.Errorf("logged %d times: %s", n, e.logged.String())
	}

	e.node.GPUs[1].Reading.Gauges[gpu.Temperature] = new(77.0)
	e.pass(9 * time.Second)
	if page(t, s)["DCGM_FI_DEV_GPU_TEMP"]["1"] != 42 {
		t.Error("the page was read again within ten seconds")
	}
	e.pass(time.Second)
	if page(t, s)["DCGM_FI_DEV_GPU_TEMP"]["1"] != 77 {
		t.Error("the page was not read again after ten seconds")
	}
	e.node.GPUs[0] = gputest.Full(0) // not in MIG mode
	e.pass(10 * time.Second)
	if diff := cmp.Diff(map[string]float64{"0": 41, "1": 77}, page(t, s)["DCGM_FI_DEV_GPU_TEMP"]); diff != "" {
		t.Errorf("page of a GPU that is whole again (-want +got):\n%s", diff)
	}
}

// A GPU without errors must have the XID 0, and the last XID of a GPU must not expire. If the driver has no XID events,
// there must be no series.
func TestPageXIDs(t *testing.T) {
	e := newEngine(t, gputest.Full(0), gputest.Divided(1))
	e.cfg.Fields = parse(t, "DCGM_FI_DEV_XID_ERRORS, gauge, x")
	s := e.open()
	check := func(when string, want map[string]float64) {
		t.Helper()
		if diff := cmp.Diff(want, page(t, s)["DCGM_FI_DEV_XID_ERRORS"], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		e.pass(10 * time.Second)
	}
	for range 5 {
		check("no error", map[string]float64{"0": 0, "1": 0})
	}
	e.add("xid\tgpu=%s\tseq=1\tcode=79", e.node.GPUs[0].Device.UUID)
	for range 8 {
		check("an error", map[string]float64{"0": 79, "1": 0})
	}
	e.fields = "\tgeneration=1\tfield_groups=64"
	e.write()
	check("not watched", nil)
}

// In MIG mode, errors of a whole board must be in the series of the GPU, although DCGM declares the field for
// instances. An instance must have a series only after it had an error itself.
func TestPageXIDsOfMIG(t *testing.T) {
	e := newEngine(t, gputest.Busy(0))
	e.cfg.Fields = parse(t, "DCGM_FI_DEV_XID_ERRORS, gauge, x")
	s := e.open()
	for _, tt := range []struct {
		xid  string // further attributes of the error, or empty if there is no error
		want map[string]float64
	}{
		{"", map[string]float64{"0": 0}},
		{"seq=1\tcode=79", map[string]float64{"0": 79}},
		{"seq=2\tcode=45\tgi=2", map[string]float64{"0": 79, "02": 45}},
	} {
		if tt.xid != "" {
			e.add("xid\tgpu=%s\t%s", e.node.GPUs[0].Device.UUID, tt.xid)
		}
		if diff := cmp.Diff(tt.want, page(t, s)["DCGM_FI_DEV_XID_ERRORS"]); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.xid, diff)
		}
		e.pass(10 * time.Second)
	}
}

// An unreadable label must be requested a few more times, and a known label must be kept. A page that was already
// published must not change. A blank label must not be requested again.
func TestLabelLater(t *testing.T) {
	for _, tt := range []struct {
		do    string
		later bool // the label becomes available later
	}{{"drop", true}, {"fail:-6", true}, {"blank", false}} {
		t.Run(tt.do, func(t *testing.T) {
			e := newEngine(t, gputest.Busy(0), gputest.Full(1))
			e.cfg.Fields = parse(t, "DCGM_FI_DEV_VBIOS_VERSION, label, x\nDCGM_FI_DEV_SERIAL, label, x\nDCGM_FI_DEV_GPU_TEMP, gauge, x")
			g := e.node.GPUs[0].Device
			e.fault(g.UUID, "field:53", tt.do)
			s := e.open()
			first := gputest.Read(t, s).Fields.Rows
			e.healed()
			e.pass(10 * time.Second)
			e.fault(g.UUID, "field:85", "drop")
			second := gputest.Read(t, s).Fields.Rows
			for i, row := range second {
				want := []string{g.VBIOSVersion, g.Serial}
				switch {
				case row.UUID != g.UUID:
					want[1] = e.node.GPUs[1].Device.Serial
				case first[i].Labels[1] != "":
					t.Errorf("row %d: the first labels are %q", i, first[i].Labels)
				case !tt.later:
					want[1] = ""
				}
				if diff := cmp.Diff(want, row.Labels); diff != "" {
					t.Errorf("row %d: labels (-want +got):\n%s", i, diff)
				}
			}

			e.fault(g.UUID, "field:53", "drop")
			asked := e.count("dcgmLiveValues -3")
			for range 10 {
				e.pass(10 * time.Second)
				gputest.Read(t, s)
			}
			if n := e.count("dcgmLiveValues -3") - asked; n > 4 {
				t.Errorf("requested %d times without a result", n)
			}
		})
	}
}

// A field that cannot be watched must not affect the other fields.
func TestPageRefused(t *testing.T) {
	e := newEngine(t, pair()...)
	e.fields = "\tprofiling=0"
	e.add("fault\tgpu=*\tcall=field:311\tdo=fail:-6")
	e.cfg.Fields = parse(t, "DCGM_FI_PROF_SM_ACTIVE, gauge, x\ndcgm_fi_prof_sm_active, gauge, x\nDCGM_FI_DEV_MEM_COPY_UTIL, gauge, x\nDCGM_FI_DEV_GPU_TEMP, gauge, x\nDCGM_FI_DEV_ECC_DBE_VOL_TOTAL, counter, x")
	for i := range e.node.GPUs {
		e.fault(e.node.GPUs[i].Device.UUID, "field:204", "blank")
	}
	s := e.open()
	if diff := cmp.Diff(map[string]map[string]float64{"DCGM_FI_DEV_GPU_TEMP": {"0": 41, "1": 42}}, page(t, s)); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	e.healed()
	e.pass(10 * time.Second)
	e.readAll(s)
	if n := strings.Count(e.logged.String(), "DCGM_FI_PROF_SM_ACTIVE: watch page: dcgmWatchFields"); n != 1 {
		t.Errorf("logged %d times: %s", n, e.logged.String())
	}
}

// To find the fields that the engine rejects, the enricher must watch each field for one GPU only.
func TestManyRefused(t *testing.T) {
	e := newEngine(t)
	for i := range 8 {
		e.node.GPUs = append(e.node.GPUs, gputest.Full(i))
	}
	e.fields = "\tprofiling=0"
	e.cfg.Fields = parse(t, dcgm.DefaultFields+"\nDCGM_FI_PROF_SM_ACTIVE, gauge, x\n")
	s := e.open()
	if p := gputest.Read(t, s).Fields; len(p.Fields) != 25 {
		t.Errorf("%d fields are left", len(p.Fields))
	}
	// Two watches are for all GPUs, and the first of them fails. All other watches are for a single field of one GPU.
	if n := e.count("dcgmGroupAddEntity 0"); n > 2*8+26 {
		t.Errorf("%d calls to add a GPU to a group", n)
	}
}

// If the engine does not have the newest fields, the page must contain all other fields.
func TestOldFields(t *testing.T) {
	e := newEngine(t, pair()...)
	e.fields = "\tfields=500"
	e.cfg.Fields = parse(t, "DCGM_FI_DEV_GPU_TEMP, gauge, x\nDCGM_FI_DEV_PLATFORM_TRAY_INDEX, gauge, x\nDCGM_FI_DEV_PCIE_REPLAY_COUNTER, counter, x")
	for i := range e.node.GPUs {
		e.fault(e.node.GPUs[i].Device.UUID, "field:202", "blank")
	}
	s := e.open()
	e.readAll(s)
	if diff := cmp.Diff(map[string]map[string]float64{"DCGM_FI_DEV_GPU_TEMP": {"0": 41, "1": 42}}, page(t, s)); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	if n := strings.Count(e.logged.String(), "DCGM_FI_DEV_PLATFORM_TRAY_INDEX: watch page: dcgmFieldGroupCreate"); n != 1 {
		t.Errorf("logged %d times: %s", n, e.logged.String())
	}
}

// Without a field file, there must be no page, and no field may be watched for it.
func TestNoPage(t *testing.T) {
	e := newEngine(t, gputest.Busy(0), gputest.Full(1))
	if p := gputest.Read(t, e.open()).Fields; p != nil {
		t.Errorf("page is %+v", p)
	}
	if n := e.count("dcgmWatchFields 0"); n != 0 {
		t.Errorf("%d watches", n)
	}
}
