package status_test

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/status"
	"github.com/gpuledger/gpuledger/test/golden"
)

var (
	ada  = gpu.Owner{Kind: gpu.OwnerPod, Scope: "team-a", Name: "notebook-ada", UID: "uid-of-notebook-ada", Part: "main"}
	job  = gpu.Unit{Manager: "slurm", Name: "4711"}.Owner()
	host = gpu.Owner{Kind: gpu.OwnerHost}
)

// seconds returns n intervals of one second. The first owner holds another number of replicas in each interval. The
// numbers repeat after as many intervals as the argument holdings.
func seconds(n, holdings int) iter.Seq[gpu.Interval] {
	return func(yield func(gpu.Interval) bool) {
		for i := range n {
			from := at(time.Duration(n-i) * time.Second)
			iv := gpu.Interval{
				From: from, To: gpu.Instant{Wall: from.Wall.Add(time.Second), Boot: from.Boot + time.Second}, Energy: 300_000,
				Busy: 0.5, BusySource: gpu.BusyProcesses, IdlePower: gpu.IdlePower{Power: 100, Source: gpu.IdleLimit}, Listed: true, Allocated: true,
				Parts: []gpu.IntervalPart{{Slices: 1, Idle: 50_000, Busy: 250_000, Held: true}},
				Charges: []gpu.Charge{
					{AccountKey: gpu.AccountKey{Owner: ada}, Holding: float64(1 + i%holdings), Activity: 300 * time.Millisecond, Idle: 20_001, Energy: gpu.ByMethod{gpu.Shared: 150_000, gpu.Allocated: 20_001}},
					{AccountKey: gpu.AccountKey{Owner: ada}, Vanished: true, Energy: gpu.ByMethod{gpu.Allocated: 7}},
					{AccountKey: gpu.AccountKey{Owner: job}, Holding: 1, Activity: 100 * time.Millisecond, Idle: 29_999, Energy: gpu.ByMethod{gpu.Shared: 50_000, gpu.Allocated: 29_999}},
					{AccountKey: gpu.AccountKey{Owner: host}, Activity: 100 * time.Millisecond, Energy: gpu.ByMethod{gpu.Shared: 49_993}},
				},
				Unattributed: [gpu.NumReasons]gpu.Millijoules{gpu.Host: 49_993},
			}
			if !yield(iv) {
				return
			}
		}
	}
}

func explainedNode(n, holdings int) *gpu.Snapshot {
	s := busyNode()
	for i := range s.GPUs {
		s.GPUs[i].Book.Settled = at(0)
	}
	s.GPUs[1].Intervals = seconds(n, holdings)
	return s
}

// TestExplanation compares the totals and causes with sums that were computed by hand, and checks an explanation as
// text and as an HTML page.
func TestExplanation(t *testing.T) {
	e, err := status.Explain(explainedNode(20, 1), status.Query{GPU: "1", Owner: "team-a/notebook-ada", Since: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := e.Total.Charged.Sum(), gpu.Millijoules(10*170_008); got != want || e.Total.OwnIdle != 200_010 || e.Others != 799_990 || e.Estimated["limit"] != got {
		t.Errorf("charged %d mJ, idle %d, others %d, estimated %d; want %d, 200010, 799990, %d", got, e.Total.OwnIdle, e.Others, e.Estimated["limit"], want, want)
	}
	kinds := make(map[status.CauseKind]gpu.Millijoules)
	for _, c := range e.Causes {
		kinds[c.Kind] += c.Charged
	}
	if kinds[status.CauseIdle] != 200_010 || kinds[status.CauseActivity] != 1_500_000 || kinds[status.CauseVanished] != 70 || len(kinds) != 3 {
		t.Errorf("causes %v", kinds)
	}
	var text, page bytes.Buffer
	if err := status.WriteExplanation(&text, e); err != nil {
		t.Fatal(err)
	}
	if err := status.ExplanationHTML(&page, e, "v0.0.0"); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "explain.txt", text.Bytes())
	golden.Check(t, "explain.html", style.ReplaceAll(page.Bytes(), []byte("<style></style>")))
	checkPage(t, page.Bytes())
}

// TestUnnamedWork checks that the explanation contains a separate cause for work for which no sample names a process.
func TestUnnamedWork(t *testing.T) {
	s := explainedNode(20, 1)
	all := s.GPUs[1].Intervals
	s.GPUs[1].Intervals = func(yield func(gpu.Interval) bool) {
		for iv := range all {
			iv.BusySource = gpu.BusyUtilization
			for i := range iv.Charges {
				iv.Charges[i].Activity = 0
			}
			if !yield(iv) {
				return
			}
		}
	}
	e, err := status.Explain(s, status.Query{GPU: "1", Owner: "team-a/notebook-ada", Since: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var about []string
	for _, c := range e.Causes {
		if c.Charged == 1_500_000 {
			about = append(about, c.About())
		}
	}
	if want := []string{"busy part without an owner in the samples, divided by the activity of the last minutes"}; !slices.Equal(about, want) {
		t.Errorf("the causes of the busy part are %q, want %q", about, want)
	}
}

// TestIdlePowerSources checks that an explanation contains the sources of the idle powers with which the charge was
// divided. It must omit an idle power that was measured on the GPU itself.
func TestIdlePowerSources(t *testing.T) {
	s := explainedNode(20, 1)
	all := s.GPUs[1].Intervals
	s.GPUs[1].Intervals = func(yield func(gpu.Interval) bool) {
		n := 0
		for iv := range all {
			iv.IdlePower.Source = gpu.IdleSource(n % 5)
			if n++; !yield(iv) {
				return
			}
		}
	}
	e, err := status.Explain(s, status.Query{GPU: "1", Owner: "team-a/notebook-ada", Since: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, sentence := range e.Sentences() {
		if about, ok := strings.CutPrefix(sentence, "340.016 J (20\u00a0%) was divided with an idle power "); ok { // this is the energy of 2 of 10 intervals
			got = append(got, about)
		}
	}
	want := []string{
		"that --idle-power sets for the model.",
		"that was measured on this node in an earlier boot.",
		"that was measured on other GPUs of this model in the node.",
		"that is estimated from the power limit.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

func TestRefusedHTML(t *testing.T) {
	_, err := status.Explain(explainedNode(20, 1), status.Query{GPU: "1", Owner: "<b>", Since: time.Minute})
	wrong := status.QueryError("")
	if !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := status.QueryErrorHTML(&page, wrong, "v0.0.0"); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "refused.html", style.ReplaceAll(page.Bytes(), []byte("<style></style>")))
	checkPage(t, page.Bytes())
}

// TestExplanationBounds checks that the explanation of many different intervals is short, and that its sums are exact
// to the millijoule.
func TestExplanationBounds(t *testing.T) {
	e, err := status.Explain(explainedNode(3000, 997), status.Query{GPU: "1", Owner: "team-a/notebook-ada/main", Since: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Times) > 120 || len(e.Causes) > 12 {
		t.Errorf("%d rows and %d causes, want at most 120 and 12", len(e.Times), len(e.Causes))
	}
	var rows, causes gpu.Millijoules
	n := 0
	for _, r := range e.Times {
		rows, n = rows+r.Charged.Sum(), n+r.Intervals
	}
	for _, c := range e.Causes {
		causes += c.Charged
	}
	const want = 3000 * 170_008
	if rows != want || causes != want || e.Total.Charged.Sum() != want || n != 3000 {
		t.Errorf("the rows sum to %d mJ, the causes to %d mJ, the total is %d mJ from %d intervals; want %d mJ from 3000", rows, causes, e.Total.Charged.Sum(), n, want)
	}
	var all gpu.Millijoules
	amounts := e.Amounts()
	for _, a := range amounts[:len(amounts)-1] {
		all += a.Amount
	}
	if all != amounts[len(amounts)-1].Amount || all != 3000*300_000 {
		t.Errorf("the amounts sum to %d mJ, but the GPU has %d mJ", all, amounts[len(amounts)-1].Amount)
	}
}

// TestExplainSelects checks the ways to name a GPU and an owner, and that errors contain
// suggestions.
func TestExplainSelects(t *testing.T) {
	s := explainedNode(5, 1)
	s.GPUs[0].Intervals = seconds(0, 1)
	tests := []struct{ gpu, owner, want string }{
		{"1", "team-a/notebook-ada", ""},
		{"1", "team-a/notebook-ada/main", ""},
		{"1", "notebook-ada", ""},
		{"1", "uid-of-notebook-ada", ""},
		{"1", "slurm/4711", ""},
		{"1", "4711", ""},
		{"gpu-00000000-0000-4000-8000-000000000001", "4711", ""},
		{"00000000:2B:00.0", "4711", ""},
		{"1650923000401", "4711", "--gpu=1650923000401: selects 2 GPUs; the GPUs are 0 (GPU-"},
		{"00000000-", "4711", "--gpu=00000000-: selects 4 GPUs"},
		{"9", "4711", "--gpu=9: no such GPU; the GPUs are 0 (GPU-00000000-0000-4000-8000-000000000000, serial "},
		{"", "4711", "--gpu=: selects 4 GPUs"},
		{"1", "", "--owner: must be namespace/pod"},
		{"1", "notebook", "--owner=notebook: no such owner on this GPU; the owners are team-a/notebook-ada/main, "},
		{"2", "4711", "the exporter keeps no intervals: set its flags --explain.period and --explain.max-bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.gpu+" "+tt.owner, func(t *testing.T) {
			e, err := status.Explain(s, status.Query{GPU: tt.gpu, Owner: tt.owner, Since: time.Minute})
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want == "" && e.Total.Charged.Sum() == 0:
				t.Error("nothing is charged")
			case tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)):
				t.Errorf("error %v, want %s…", err, tt.want)
			}
		})
	}
}

// TestGetExplanation checks that the client sends the query, and that it returns the exporter's error about an invalid
// query unchanged.
func TestGetExplanation(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		if r.URL.Query().Get("gpu") == "9" {
			status.QueryError("--gpu=9: " + strings.Repeat("x", 500)).Respond(w)
			return
		}
		_, _ = io.WriteString(w, `{"version":1,"owner":"a/b"}`)
	}))
	defer server.Close()
	q := status.Query{GPU: "0", Owner: "a b/c", Since: time.Minute}
	e, err := status.GetExplanation(t.Context(), http.DefaultClient, server.URL, q)
	if err != nil || e.Owner != "a/b" || !slices.Equal(asked, []string{"/explain?gpu=0&owner=a+b%2Fc&since=1m0s"}) {
		t.Errorf("explanation %+v, error %v, requests %q", e, err, asked)
	}
	q.GPU = "9"
	if _, err = status.GetExplanation(t.Context(), http.DefaultClient, server.URL, q); err == nil || err.Error() != "--gpu=9: "+strings.Repeat("x", 500) {
		t.Errorf("error %v, want the error of the exporter", err)
	}
}

// TestHostileExplanation checks that names with markup and control characters do not change the page or
// the terminal.
func TestHostileExplanation(t *testing.T) {
	var elements [][]string
	for _, evil := range []string{"q", "q<b onload=\"x\">'&\x1b[31m\u202e\n\xff{{.}}"} {
		s := explainedNode(3, 1)
		g := &s.GPUs[1]
		g.Model, g.Serial, s.Node.Name = evil, evil, evil
		kept := slices.Collect(g.Intervals)
		for i := range kept {
			kept[i].Charges[0].Name = evil
		}
		g.Intervals = slices.Values(kept)
		e, err := status.Explain(s, status.Query{GPU: "1", Owner: evil, Since: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		var text, page bytes.Buffer
		if err := status.WriteExplanation(&text, e); err != nil {
			t.Fatal(err)
		}
		if err := status.ExplanationHTML(&page, e, "v0.0.0"); err != nil {
			t.Fatal(err)
		}
		elements = append(elements, checkPage(t, page.Bytes()))
		if bytes.ContainsAny(text.Bytes(), "\x1b\u202e") {
			t.Errorf("the text contains control characters: %q", text.String())
		}
	}
	if !slices.Equal(elements[0], elements[1]) {
		t.Error("a hostile name changes the elements of the page")
	}
}

// TestExplanationLinksToItself checks the link to JSON on the HTML page of an explanation. Even if the last interval is
// three hours older than the snapshot, the link must select the same owner and the same length of time.
func TestExplanationLinksToItself(t *testing.T) {
	s := explainedNode(20, 1)
	s.At = at(-3 * time.Hour)
	e, err := status.Explain(s, status.Query{GPU: "1", Owner: "uid-of-notebook-ada", Since: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := status.ExplanationHTML(&page, e, "v0.0.0"); err != nil {
		t.Fatal(err)
	}
	const want = "./explain?gpu=GPU-00000000-0000-4000-8000-000000000001&amp;owner=uid-of-notebook-ada&amp;since=10s"
	if !strings.Contains(page.String(), want) {
		t.Errorf("the page does not contain the link %s:\n%s", want, page.String())
	}
}

// TestExplainNumber checks that a number selects the GPU with this index, and never a GPU whose UUID begins with this
// number.
func TestExplainNumber(t *testing.T) {
	s := explainedNode(5, 1)
	s.GPUs[1].UUID = "GPU-70000000-0000-4000-8000-000000000001"
	for number, want := range map[string]string{"1": "", "7": "--gpu=7: no such GPU", "70": "--gpu=70: no such GPU", "7000": "", "gpu-7": ""} {
		_, err := status.Explain(s, status.Query{GPU: number, Owner: "4711", Since: time.Minute})
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("--gpu=%s: error %v, want %q", number, err, want)
		}
	}
}

// TestExplanationRows checks that an explanation has at most 120 rows, even if a minute is not a multiple of its
// intervals.
func TestExplanationRows(t *testing.T) {
	for _, length := range []time.Duration{1, 7, 20, 30, 31, 59, 61, 599} {
		s := explainedNode(200, 1)
		var n int
		s.GPUs[1].Intervals = func(yield func(gpu.Interval) bool) {
			n = 0
			for iv := range seconds(200, 1) {
				iv.From, iv.To = at(time.Duration(200-n)*length*time.Second), at(time.Duration(199-n)*length*time.Second)
				if n++; !yield(iv) {
					return
				}
			}
		}
		e, err := status.Explain(s, status.Query{GPU: "1", Owner: "4711", Since: 1000 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Times) > 120 || e.Total.Intervals != 200 {
			t.Errorf("%d intervals of %d s: %d rows, want at most 120", e.Total.Intervals, length, len(e.Times))
		}
	}
}
