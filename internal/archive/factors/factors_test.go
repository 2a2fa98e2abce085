package factors_test

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/factors"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var check = fatal.If

func file(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list.csv")
	check(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func read(t *testing.T, f factors.Files) factors.Factors {
	t.Helper()
	all, err := f.Read()
	check(t, err)
	return all
}

func at(text string) time.Time {
	moment, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return moment
}

func TestCost(t *testing.T) {
	f := read(t, factors.Files{PUE: "1.5,west=2", Prices: file(t, `from,until,cluster,model,per_kwh,per_gpu_hour,currency
2026-10-01,,,,0.2,,eur
2026-10-01,,,H100,,2,eur
2026-10-01,2026-10-02,west,,0.4,,eur
`)})
	for _, tt := range []struct {
		use   factors.Use
		want  float64
		known bool
	}{
		{factors.Use{Cluster: "east", Hour: at("2026-10-05T00:00:00Z"), Energy: 3_600_000_000}, 0.3, true},
		{factors.Use{Cluster: "west", Hour: at("2026-10-01T23:00:00Z"), Energy: 3_600_000_000}, 0.8, true},
		{factors.Use{Cluster: "west", Hour: at("2026-10-02T00:00:00Z"), Energy: 3_600_000_000}, 0.4, true},
		{factors.Use{Cluster: "east", Model: "H100", Hour: at("2026-10-02T00:00:00Z"), GPUTime: 1_800_000}, 1, true},
		{factors.Use{Cluster: "east", Model: "H100", Hour: at("2026-09-30T23:00:00Z"), GPUTime: 1_800_000}, 0, false},
	} {
		if got, known := f.Cost(tt.use); math.Abs(got-tt.want) > 1e-12 || known != tt.known {
			t.Errorf("%+v: %v, %v, want %v, %v", tt.use, got, known, tt.want, tt.known)
		}
	}
	if f.Prices.Currency() != "EUR" {
		t.Errorf("currency %q", f.Prices.Currency())
	}
}

// As in prices, an empty cell matches everything. In a file with hourly data, a row is valid for an hour, so that gaps
// are visible.
func TestIntensities(t *testing.T) {
	const maps = "Datetime (UTC),Zone id,Carbon intensity gCO₂eq/kWh (Life cycle)\n"
	series := func(texts ...string) string {
		text := maps
		for i, from := range texts {
			text += fmt.Sprintf("%s,DE,%d\n", from, 100+i)
		}
		return text
	}
	for name, tt := range map[string]struct {
		file  string
		zones string
		want  map[string]float64 // intensity by time; -1 if unknown
	}{
		"our columns":       {"from,until,zone,grams_per_kwh\n2026-10-01,2026-10-02,DE,300\n2026-10-01,,FR,50\n", "east=DE,west=FR", map[string]float64{"2026-10-01T23": 300, "2026-10-02T00": -1}},
		"another zone":      {"from,until,zone,grams_per_kwh\n2026-10-01,2026-10-02,DE,300\n2026-10-01,,FR,50\n", "west=FR", map[string]float64{"2026-10-01T23": -1}},
		"Electricity Maps":  {"\ufeffDatetime (UTC),Country,Zone name,Zone id,Carbon intensity gCO₂eq/kWh (direct),Carbon intensity gCO₂eq/kWh (Life cycle)\n2026-10-01 00:00:00,Germany,Germany,DE,250,300\n", "", map[string]float64{"2026-09-30T23": -1, "2026-10-01T00": 300, "2026-10-01T01": -1}},
		"no dates":          {"grams_per_kwh,from\n300,\n", "", map[string]float64{"2001-01-01T00": 300, "2026-10-01T00": 300}},
		"no zone":           {"from,zone,grams_per_kwh\n,,300\n2026-10-02,DE,100\n,FR,50\n", "east=DE,west=FR", map[string]float64{"2026-10-01T23": 300, "2026-10-02T00": 100}},
		"an exception":      {"from,until,grams_per_kwh\n,,300\n2026-10-02,2026-10-03,100\n", "", map[string]float64{"2026-10-01T23": 300, "2026-10-02T23": 100, "2026-10-03T00": 300}},
		"no end":            {"from,grams_per_kwh\n2026-10-01,300\n", "", map[string]float64{"2026-09-30T23": -1, "2026-10-01T00": 300, "2027-10-01T00": 300}},
		"the last of two":   {"from,grams_per_kwh\n2026-10-01,300\n2026-10-01,200\n", "", map[string]float64{"2026-10-01T00": 200}},
		"descending":        {"from,grams_per_kwh\n2026-10-02,300\n2026-10-01,200\n", "", map[string]float64{"2026-10-01T23": 200, "2026-10-02T00": 300}},
		"our hours":         {"from,grams_per_kwh\n2026-10-01 00:00,1\n2026-10-01 01:00,2\n2026-10-01 05:00,3\n", "", map[string]float64{"2026-10-01T01": 2, "2026-10-01T02": -1, "2026-10-01T04": -1, "2026-10-01T05": 3, "2026-10-01T06": -1}},
		"one hourly row":    {series("2026-10-01 00:00:00"), "", map[string]float64{"2026-10-01T00": 100, "2026-10-01T01": -1, "2026-10-20T00": -1}},
		"a gap":             {series("2026-10-01 00:00:00", "2026-10-01 01:00:00", "2026-10-01 04:00:00"), "", map[string]float64{"2026-10-01T01": 101, "2026-10-01T02": -1, "2026-10-01T03": -1, "2026-10-01T04": 102}},
		"quarters":          {series("2026-10-01 00:00:00", "2026-10-01 00:15:00"), "", map[string]float64{"2026-10-01T00": 100, "2026-10-01T01": 101, "2026-10-01T02": -1}},
		"days with a gap":   {series("2026-10-01 00:00:00", "2026-10-02 00:00:00", "2026-10-04 00:00:00"), "", map[string]float64{"2026-10-02T23": 101, "2026-10-03T00": -1, "2026-10-04T23": 102, "2026-10-05T00": -1}},
		"months":            {series("2026-01-01 00:00:00", "2026-02-01 00:00:00", "2026-03-01 00:00:00"), "", map[string]float64{"2026-01-31T23": 100, "2026-02-28T23": 101, "2026-03-31T23": 102, "2026-04-01T00": -1}},
		"years":             {series("2023-01-01 00:00:00", "2024-01-01 00:00:00"), "", map[string]float64{"2023-12-31T23": 100, "2024-12-31T23": 101, "2025-01-01T00": -1}},
		"an empty interval": {"from,until,grams_per_kwh\n2026-10-02,2026-10-01,300\n", "", map[string]float64{"2026-10-01T12": -1, "2026-10-02T00": -1}},
	} {
		f := read(t, factors.Files{Carbon: file(t, tt.file), Zones: tt.zones})
		for when, want := range tt.want {
			moment := at(when + ":00:00Z")
			got, known := f.Grams(factors.Use{Cluster: "east", Hour: moment, Energy: 3_600_000_000})
			if !known && got == 0 {
				got = -1
			}
			if got != want {
				t.Errorf("%s, %s: %v, %v, want %v", name, when, got, known, want)
			}
			if n := f.Without("east", moment, moment.Add(time.Hour)); (n == 1) != (want == -1) {
				t.Errorf("%s, %s: %d hours without an intensity", name, when, n)
			}
		}
	}
	f := read(t, factors.Files{Carbon: file(t, series("2026-10-01 00:00:00", "2026-10-01 01:00:00", "2026-10-01 04:00:00"))})
	if n := f.Without("east", at("2026-10-01T00:00:00Z"), at("2026-10-02T00:00:00Z")); n != 21 {
		t.Errorf("%d hours without an intensity, want 21 of 24", n)
	}
}

func TestAssets(t *testing.T) {
	for name, f := range map[string]factors.Files{
		"ours":       {Assets: file(t, "serial,tag,warranty\nS1,T1,2029-01-01\n")},
		"NetBox":     {Assets: file(t, "ID,Name,Serial number,Asset tag,cf_warranty_end\n7,gpu,S1,T1,2029-01-01\n")},
		"ServiceNow": {Assets: file(t, "serial_number;asset_tag;warranty_expiration\nS1;T1;2029-01-01\n")},
		"mapping":    {Assets: file(t, "Nr,Label,Ends\nS1,T1,2029-01-01\n"), Columns: "serial=Nr,tag=Label,warranty=Ends"},
	} {
		a := read(t, f).Assets
		if a.SerialOf("T1") != "S1" || a.Of("S1").Tag != "T1" || a.Of("S1").Warranty != "2029-01-01" || a.Of("S2").Tag != "" {
			t.Errorf("%s: %+v", name, a.Of("S1"))
		}
	}
	r := read(t, factors.Files{RMA: file(t, "old_serial,new_serial,rma\nS1,S2,R-1\n")}).RMA
	if got := r.Note("S1", ""); got != "R-1: S1 returned for S2" || r.Note("", "S2") != got || r.Note("S3", "S4") != "" {
		t.Errorf("note %q", got)
	}
}

// An error must contain the flag and the line, and must be a single line.
func TestInvalid(t *testing.T) {
	for _, tt := range []struct {
		files factors.Files
		want  string
	}{
		{factors.Files{Prices: file(t, "")}, "the file is empty"},
		{factors.Files{Prices: file(t, "a,b\n")}, "add at least one of them"},
		{factors.Files{Prices: file(t, "per_kwh\n")}, "contains no prices"},
		{factors.Files{Prices: file(t, "per_kwh\n-1\n")}, "line 2"},
		{factors.Files{Prices: file(t, "per_kwh,currency\n1,EUR\n1,USD\n")}, "same currency"},
		{factors.Files{Prices: file(t, "per_kwh\n1,2\n")}, "invalid CSV"},
		{factors.Files{Prices: "/nowhere"}, "--prices"},
		{factors.Files{Carbon: file(t, "zone\nDE\n")}, "Electricity Maps"},
		{factors.Files{Carbon: file(t, "from,zone,grams_per_kwh\n2026-10-01,DE,1\n2026-10-01,FR,1\n")}, "set --carbon.zones"},
		{factors.Files{Carbon: file(t, "from,zone,grams_per_kwh\n2026-10-01,DE,1\n"), Zones: "east=FR"}, `zone "FR"`},
		{factors.Files{Assets: file(t, "x\n")}, "--assets.columns=serial=HEADER"},
		{factors.Files{Assets: file(t, "x\n"), Columns: "serial=y"}, `no column "y"`},
		{factors.Files{RMA: file(t, "x\n")}, "old_serial"},
		{factors.Files{PUE: "east"}, "--pue"},
	} {
		if _, err := tt.files.Read(); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: error %v, want one with %q", tt.files, err, tt.want)
		}
	}
}

// No file may crash the readers. No cost or emission may be NaN or infinite.
func FuzzRead(f *testing.F) {
	f.Add("from,until,cluster,model,per_kwh,per_gpu_hour,currency\n2026-01-01,,,,0.2,2,EUR\n")
	f.Add("Datetime (UTC),Zone id,Carbon intensity gCO₂eq/kWh (direct)\n2026-01-01,DE,3\n")
	f.Add("\ufeffserial;tag\nS1;T1\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := file(t, text)
		for _, files := range []factors.Files{{Prices: path}, {Carbon: path}, {Assets: path}, {RMA: path}} {
			all, err := files.Read()
			if err != nil {
				continue
			}
			use := factors.Use{Hour: at("2026-01-01T00:00:00Z"), Energy: math.MaxInt64, GPUTime: math.MaxInt64}
			if cost, _ := all.Cost(use); !(cost >= 0 && cost < 3e21) {
				t.Errorf("cost %v of %q", cost, text)
			}
			if grams, _ := all.Grams(use); !(grams >= 0 && grams < 3e21) {
				t.Errorf("%v grams of %q", grams, text)
			}
		}
	})
}

// All times in a part must have the same prices and intensities.
func TestParts(t *testing.T) {
	from, until := at("2026-10-01T00:00:00Z"), at("2026-10-03T00:00:00Z")
	prices := file(t, "from,until,per_kwh\n2026-09-01,2026-10-01 12:30,0.2\n2026-10-01 12:30,,0.3\n2026-10-02,2026-10-09,0.4\n")
	carbon := file(t, "from,until,zone,grams_per_kwh\n2026-10-01,2026-10-01 06:00,DE,300\n2026-10-02 07:00,,DE,50\n")
	hour := func(day, n int) time.Time { return from.AddDate(0, 0, day-1).Add(time.Duration(n) * time.Hour) }
	for _, tt := range []struct {
		files factors.Files
		want  []time.Time
	}{
		{factors.Files{}, []time.Time{from}},
		{factors.Files{Prices: file(t, "per_kwh\n1\n")}, []time.Time{from}},
		{factors.Files{Prices: prices}, []time.Time{from, hour(1, 13), hour(2, 0)}},
		{factors.Files{Carbon: carbon}, []time.Time{from, hour(1, 6), hour(2, 7)}},
		{factors.Files{Prices: prices, Carbon: carbon}, []time.Time{from, hour(1, 6), hour(1, 13), hour(2, 0), hour(2, 7)}},
	} {
		f := read(t, tt.files)
		got := f.Parts(from, until)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.files, diff)
		}
		for i, start := range got {
			end := until
			if i+1 < len(got) {
				end = got[i+1]
			}
			price, priced := f.Cost(factors.Use{Hour: start, Energy: 3_600_000_000})
			grams, known := f.Grams(factors.Use{Hour: start, Energy: 3_600_000_000})
			for now := start; now.Before(end); now = now.Add(time.Hour) {
				p, ok := f.Cost(factors.Use{Hour: now, Energy: 3_600_000_000})
				if g, found := f.Grams(factors.Use{Hour: now, Energy: 3_600_000_000}); p != price || ok != priced || g != grams || found != known {
					t.Errorf("%+v: %s has %v and %v, its part %s has %v and %v", tt.files, now, p, g, start, price, grams)
				}
			}
		}
	}
}

type endless struct {
	text string
	read int
}

func (e *endless) Read(b []byte) (n int, err error) {
	for n < len(b) {
		n += copy(b[n:], e.text[(e.read+n)%len(e.text):])
	}
	e.read += n
	return n, nil
}

// pipe returns the path of a pipe. It contains a header, and then an endless repetition of a text.
func pipe(t *testing.T, header, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list.csv")
	check(t, syscall.Mkfifo(path, 0o600))
	go func() {
		out, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return
		}
		defer out.Close()
		_, _ = io.Copy(out, io.MultiReader(strings.NewReader(header), &endless{text: text})) // the copy ends when the reader closes the pipe
	}()
	return path
}

func TestLimits(t *testing.T) {
	long := strings.Repeat("x", 1025)
	for name, tt := range map[string]struct {
		files factors.Files
		want  string
	}{
		"endless line":    {factors.Files{Prices: pipe(t, "per_kwh\n", "1")}, "a line is longer than"},
		"endless quotes":  {factors.Files{Carbon: pipe(t, "from,zone,grams_per_kwh\n\"", "x\n")}, "a line is longer than"},
		"endless header":  {factors.Files{Assets: pipe(t, "", ",")}, "a line is longer than"},
		"endless rows":    {factors.Files{RMA: pipe(t, "old_serial,new_serial\n", "a,b\n")}, "rows"},
		"endless prices":  {factors.Files{Prices: pipe(t, "per_kwh\n", "1\n")}, "prices"},
		"endless comment": {factors.Files{Assets: pipe(t, "serial,comment\n", "1,"+strings.Repeat("x", 1<<16)+"\n")}, "MiB"},
		"columns":         {factors.Files{Assets: file(t, "serial"+strings.Repeat(",x", 256)+"\n")}, "columns"},
		"long cluster":    {factors.Files{Prices: file(t, "cluster,per_kwh\n"+long+",1\n")}, "line 2: a field is longer than"},
		"long zone":       {factors.Files{Carbon: file(t, "from,zone,grams_per_kwh\n2026-10-01,"+long+",1\n")}, "a field is longer than"},
		"long tag":        {factors.Files{Assets: file(t, "serial,tag\nS1,"+long+"\n")}, "a field is longer than"},
		"long number":     {factors.Files{Prices: file(t, "per_kwh\n"+long+"\n")}, "line 2"},
		"price":           {factors.Files{Prices: file(t, "per_kwh\n1e10\n")}, "must be a number from 0"},
		"infinite price":  {factors.Files{Prices: file(t, "per_gpu_hour\n1e999\n")}, "must be a number from 0"},
		"not a number":    {factors.Files{Prices: file(t, "per_gpu_hour\nNaN\n")}, "must be a number from 0"},
		"intensity":       {factors.Files{Carbon: file(t, "from,grams_per_kwh\n2026-10-01,inf\n")}, "must be a number from 0"},
	} {
		if _, err := tt.files.Read(); err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 3000 {
			t.Errorf("%s: error %v, want one with %q", name, err, tt.want)
		}
	}
}
