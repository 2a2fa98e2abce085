package events_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/event"
	"github.com/gpuledger/gpuledger/internal/reconciler/outbox"
	"github.com/gpuledger/gpuledger/test/pipes"
)

// TestRepeat checks in which responses the receiver requests the state of a cluster. The sender sends a request again if
// it received no response, so its next request shows whether it received the last response.
func TestRepeat(t *testing.T) {
	type request struct {
		after time.Duration
		body  string
		want  bool // whether the response requests the state
	}
	other := strings.ReplaceAll(phase, "Running", "Succeeded")
	tests := []struct {
		name     string
		requests []request
	}{
		{"the response was received", []request{{0, phase, true}, {time.Second, other, false}, {time.Second, phase, false}, {time.Minute, phase, false}}},
		{"responses were lost", []request{{0, phase, true}, {time.Second, phase, true}, {90 * time.Second, phase, true}, {time.Second, other, false}, {time.Second, other, false}}},
		{"a response was lost before an outage", []request{{0, phase, true}, {time.Hour, phase, true}, {time.Second, phase, true}, {time.Second, other, false}}},
		// The state of a small cluster is a single request. If the pods do not change, each repetition is equal.
		{"the state is equal", []request{{0, phase, true}, {5 * time.Minute, phase, true}, {5 * time.Minute, phase, false}, {5 * time.Minute, phase, false}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := events.New(events.Config{}, []events.Destination{(&memory{}).destination("m")}, slog.New(slog.DiscardHandler))
				for i, req := range tt.requests {
					time.Sleep(req.after)
					if got := post(r, target, req.body).Header().Get(event.RepeatHeader) == "true"; got != req.want {
						t.Errorf("response %d requests the state: %v, want %v", i, got, req.want)
					}
				}
			})
		})
	}
}

// TestLostResponse restarts the archive while a reconciler runs, so the archive requests the state of the cluster. The
// connection ends before the reconciler receives this response. The reconciler must still send its state.
func TestLostResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handler atomic.Pointer[events.Receiver]
		var losses atomic.Int32
		restart := func() *memory {
			m := &memory{}
			handler.Store(events.New(events.Config{}, []events.Destination{m.destination("m")}, slog.New(slog.DiscardHandler)))
			return m
		}
		conns := make(pipes.Listener)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			handler.Load().ServeHTTP(w, req)
			if losses.Add(-1) >= 0 {
				panic(http.ErrAbortHandler) // closes the connection without a response
			}
		})}
		go server.Serve(conns) //nolint:errcheck // returns when the test ends
		o := outbox.New(outbox.Options{URL: "http://archive", Cluster: "east", Dial: conns.Dial}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = o.Run(ctx) }()

		restart()
		o.Repeat(slices.Values([][]byte{[]byte(snapshot)}))
		time.Sleep(time.Hour)
		m := restart()
		losses.Store(2)
		o.Send([]byte(phase))
		time.Sleep(time.Hour)
		want := map[string][]string{"events": slices.Repeat([]string{"east u/phase/Running"}, 3), "snapshots": {"east u/snapshot/7"}}
		if diff := cmp.Diff(want, m.filed()); diff != "" {
			t.Errorf("rows (-want +filed):\n%s", diff)
		}
		cancel()
		<-done
		if err := server.Close(); err != nil {
			t.Error(fmt.Errorf("close the server: %w", err))
		}
	})
}
