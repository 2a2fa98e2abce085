package books_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/store"
)

// FuzzStore checks that every response of a store leads to rows or an error. It must not cause a panic or a long delay.
func FuzzStore(f *testing.F) {
	const begin, end = foldtest.Begin, foldtest.End
	listed := `{"status":"success","data":[{"UUID":"u","node":"n","cluster":"c","pod_uid":"p"}]}`
	f.Add(begin+`{"metric":{},"value":[1,"NaN"]}`+end, listed)
	f.Add(begin+`{"metric":{"label_team":"a"},"value":[1,"1e300"]}`+end, `{"status":"success","data":[{}],"warnings":["a"]}`)
	f.Add(begin+`{"metric":{"__name__":"gpuledger_board_energy_joules_total","node":"n","UUID":"u","cluster":"c"},"values":[[5,"1"],[3600,"1e300"],[3601,"-1"]]}`+end, listed)
	f.Add(begin+`{"metric":{"__name__":"gpuledger_board_energy_joules_total","node":"n","UUID":"u","a":"b"},"values":[[5,"1"]]},{"metric":{"__name__":"gpuledger_board_energy_joules_total","node":"n","UUID":"u"},"values":[[5,"1"],[6,"2"]]}`+end, listed)
	f.Add(begin+`{"metric":{"cluster":"c","UUID":"u"},"values":[[3600,"1"],[7200,"NaN"]]}`+end, `[]`)
	answers := &foldtest.Answers{}
	server := httptest.NewServer(answers)
	f.Cleanup(server.Close)
	from := time.Unix(0, 0).UTC()
	f.Fuzz(func(t *testing.T, queried, listed string) {
		answers.Set(queried, listed)
		began, ctx := time.Now(), t.Context()
		for _, read := range []string{"samples", "rules", "auto"} {
			source, err := books.OpenStore(store.Config{URL: server.URL, Type: "prometheus", Timeout: 10 * time.Second}, books.Reading{Read: read, Team: "team"})
			check(t, err)
			of := books.Query{From: from, Until: from.Add(2 * time.Hour)}
			_, _ = source.Boards(ctx, of)
			of.By, of.Checks, of.Rows = []string{"team", "hour"}, true, true
			_, _ = source.Statement(ctx, of)
			for _, err := range source.Hours(ctx, of) {
				_ = err
			}
			_, _, _ = source.Counted(ctx, of)
			of.By, of.Parts = []string{"workload_uid"}, []time.Time{from, from.Add(time.Hour)}
			_, _ = source.Statement(ctx, of)
			of = books.Query{From: from, Until: from.Add(3 * time.Hour), Named: "u", Places: true}
			_, _ = source.Boards(ctx, of)
			for _, err := range source.Rows(ctx, of) {
				_ = err
			}
			of = books.Query{From: from, Until: from.Add(2 * time.Hour), Where: map[string][]string{"workload_uid": {"w"}}}
			for _, err := range source.Rows(ctx, of) {
				_ = err
			}
			check(t, source.Close())
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the books take %v", took)
		}
	})
}
