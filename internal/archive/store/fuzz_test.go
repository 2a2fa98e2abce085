package store_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var check = fatal.If

// For any response to a query, a reader must return an error or usable data. It must not panic or take long.
func FuzzAnswers(f *testing.F) {
	const begin, end = foldtest.Begin, foldtest.End
	f.Add(begin+`{"metric":{},"value":[1,"NaN"]}`+end, `{"status":"success","data":[{"node":"a"}]}`)
	f.Add(begin+`{"metric":{},"value":[1,"1e18"]}`+end, `{"status":"success","data":[{}],"warnings":["a"]}`)
	f.Add(begin+`{"metric":{"__name__":"gpuledger_board_energy_joules_total","node":"n","UUID":"u","cluster":"c"},"values":[[5,"1"],[3600,"1e300"],[3601,"-1"]]}`+end, `[]`)
	f.Add(begin+`{"metric":{"pod_uid":"a"},"values":[[7200,"Inf"]]},{"metric":{"pod_uid":"a"},"value":[1,"1"]},{"metric":{}},{}`+end, `{"data":null}`)
	f.Add(begin+`{"metric":{"__name__":"gpuledger_placement_info","UUID":"u"},"values":[[1,"1"]]},{"metric":{"__name__":"gpuledger_placement_info","UUID":"u"},"values":[[1,"1"],[2,"1"]]}`+end, ``)
	answers := &foldtest.Answers{}
	server := httptest.NewServer(answers)
	f.Cleanup(server.Close)
	s, err := store.New(store.Config{URL: server.URL, Type: "prometheus", Timeout: 10 * time.Second})
	check(f, err)
	f.Fuzz(func(t *testing.T, queried, listed string) {
		answers.Set(queried, listed)
		began, hour := time.Now(), time.Unix(0, 0).UTC()
		ctx := t.Context()
		_, _ = s.Clusters(ctx, hour)
		if boards, err := s.Boards(ctx, "c", hour); err == nil && len(store.Shards(boards, 6)) > 256 {
			t.Errorf("%d boards are in too many shards", boards)
		}
		_, _ = s.Nodes(ctx, "c", hour)
		_, _ = s.Targets(ctx, "c", hour)
		_, _ = s.Last(ctx, "up", store.Window{After: hour, Until: hour.Add(time.Hour)})
		_, _ = s.Scrapes(ctx, "c", hour)
		_, _ = s.BoardsOf(ctx, "c", []string{"n"}, store.Window{After: hour, Until: hour.Add(time.Hour)})
		_, _ = s.Readings(ctx, []string{"u"}, store.Window{After: hour, Until: hour.Add(time.Hour)})
		_, _ = s.SampledSince(ctx, "c", hour, hour.Add(time.Hour))
		_, _ = s.Series(ctx, "up", hour, hour)
		_, _ = s.SomeSeries(ctx, "up", hour, hour, 2)
		_ = s.Query(ctx, "up", hour, func(found fold.Series) { found.Last() })
		_ = s.Hourly(ctx, "up", hour, hour.Add(time.Hour), func(found fold.Series) {
			for _, x := range found.Samples {
				if x.Time < 0 || x.Time > 3_600_000 {
					t.Errorf("a sample at %d is not in the range", x.Time)
				}
			}
		})
		owners, err := s.Owners(ctx, "c", hour)
		if err != nil {
			owners = nil
		}
		hours, err := s.Read(ctx, "c", hour, 2, "", nil)
		if err != nil {
			return
		}
		for _, in := range hours {
			if h, err := fold.Fold(in); err == nil {
				fold.Name(h, owners, "team")
			}
			in.Closings()
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the readers take %v", took)
		}
	})
}
