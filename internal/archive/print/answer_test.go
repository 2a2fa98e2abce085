package print_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var check = fatal.If

var answer = print.Answer{
	Columns: []print.Column{
		{Name: "name", Title: "NAME"},
		{Name: "hidden"},
		{Name: "at", Title: "AT", Kind: print.Time},
		{Name: "energy_mj", Title: "KWH", Kind: print.Energy},
		{Name: "gpu_ms", Title: "HOURS", Kind: print.Span},
		{Name: "share", Title: "SHARE", Kind: print.Share},
		{Name: "cost", Title: "COST", Kind: print.Number},
		{Name: "empty", Title: "EMPTY"},
		{Name: "ok", Title: "OK", Kind: print.Flag},
	},
	Rows: [][]any{
		{"a|<b>", "x", time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), int64(3_600_000_000), int64(5_400_000), 0.25, -1.5, "", true},
		{"c", "y", time.Time{}, int64(1), int64(0), nil, 2.0, nil, false},
	},
	Notices: []string{"incomplete: an hour is missing"},
}

func TestWrite(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	check(t, err)
	for format, want := range map[string]string{
		"text": "NAME   AT                KWH    HOURS  SHARE   COST   OK\na|<b>  2026-11-01 13:00  1.000  1.50   25.0 %  -1.50  true\n" +
			"c      -                 0.000  0.00   -       2.00   false\n! incomplete: an hour is missing\n",
		"csv": "name,hidden,at,energy_mj,gpu_ms,share,cost,empty,ok\na|<b>,x,2026-11-01T12:00:00.000Z,3600000000,5400000,0.25,-1.5,,true\nc,y,,1,0,,2,,false\n",
		"markdown": "| NAME | AT | KWH | HOURS | SHARE | COST | OK |\n|---|---|---|---|---|---|---|\n| a\\|\\<b\\> | 2026-11-01 13:00 | 1.000 | 1.50 | 25.0 % | -1.50 | true |\n" +
			"| c | - | 0.000 | 0.00 | - | 2.00 | false |\n\n> incomplete: an hour is missing\n",
	} {
		var out strings.Builder
		check(t, answer.Write(&out, format, print.Style{Zone: berlin}))
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}

func TestJSON(t *testing.T) {
	var out strings.Builder
	check(t, answer.Write(&out, "json", print.Style{}))
	var got struct {
		Rows    []map[string]any
		Notices []string
	}
	check(t, json.Unmarshal([]byte(out.String()), &got))
	want := map[string]any{"name": "c", "hidden": "y", "at": nil, "energy_mj": 1.0, "gpu_ms": 0.0, "share": nil, "cost": 2.0, "empty": nil, "ok": false}
	if diff := cmp.Diff(want, got.Rows[1]); diff != "" || len(got.Notices) != 1 {
		t.Errorf("second row (-want +got):\n%s", diff)
	}
	out.Reset()
	if err := (print.Answer{}).Write(&out, "json", print.Style{}); err != nil || !strings.Contains(out.String(), `"rows": []`) || !strings.Contains(out.String(), `"notices": []`) {
		t.Errorf("empty answer: %v, %s", err, out.String())
	}
}

// Colours must be used only if they are enabled. HTML must be escaped.
func TestColour(t *testing.T) {
	for _, colour := range []bool{false, true} {
		var out strings.Builder
		check(t, answer.Write(&out, "text", print.Style{Zone: time.UTC, Colour: colour}))
		if strings.Contains(out.String(), "\x1b[") != colour {
			t.Errorf("colour %v: %q", colour, out.String())
		}
	}
	var page strings.Builder
	check(t, print.Pages(&page, "html", []print.Page{{Title: "A & B", Sections: []print.Section{{Title: "One", Answer: answer}, {Title: "None"}}}}, print.Style{Zone: time.UTC}))
	for _, part := range []string{"<title>A &amp; B</title>", "a|&lt;b&gt;", "None.", `class="notice"`} {
		if !strings.Contains(page.String(), part) {
			t.Errorf("no %s in\n%s", part, page.String())
		}
	}
}
