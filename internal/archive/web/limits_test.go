package web

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/print"
)

func limited(answer func(context.Context, ask.Request) (*ask.Reply, error)) *answers {
	return &answers{ask: answer, now: time.Now, turns: semaphore.NewWeighted(maxQuestions), kept: make(map[string]kept)}
}

func rows(n int) *ask.Reply { return &ask.Reply{Answer: print.Answer{Rows: make([][]any, n)}} }

// TestKept checks that an answer is cached for a minute, and only for readers with the same scope.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		a := limited(func(context.Context, ask.Request) (*ask.Reply, error) { asked++; return rows(1), nil })
		one := ask.Request{Command: "statement", Scope: ask.Scope{Rules: []ask.Rule{{Teams: []string{"a"}}}}}
		two := ask.Request{Command: "statement", Scope: ask.Scope{Rules: []ask.Rule{{Namespaces: []string{"a"}}}}}
		for i, tt := range []struct {
			request ask.Request
			wait    time.Duration
			asked   int
		}{{one, 0, 1}, {one, 59 * time.Second, 1}, {two, 0, 2}, {ask.Request{Command: "statement", Scope: ask.Scope{All: true}}, 0, 3}, {two, 30 * time.Second, 3}, {one, 0, 4}} {
			time.Sleep(tt.wait)
			if _, err := a.answer(t.Context(), tt.request); err != nil || asked != tt.asked {
				t.Errorf("request %d: %d questions, want %d, error %v", i, asked, tt.asked, err)
			}
		}
	})
}

func TestKeptRows(t *testing.T) {
	a := limited(func(context.Context, ask.Request) (*ask.Reply, error) { return rows(maxRows - 1), nil })
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if _, err := a.answer(t.Context(), ask.Request{Command: name}); err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, k := range a.kept {
			sum += rowsOf(k.reply)
		}
		if sum != a.rows || sum > keptRows {
			t.Errorf("%d rows are cached, counted as %d, want at most %d", sum, a.rows, keptRows)
		}
	}
}

// TestLimits checks the limits for time, rows and concurrent questions. A question must be cancelled when its client
// disconnects.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := limited(func(ctx context.Context, r ask.Request) (*ask.Reply, error) {
			if r.Command == "large" {
				return rows(maxRows), nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if _, err := a.answer(t.Context(), ask.Request{Command: "large"}); !errors.Is(err, errTooMany) {
			t.Errorf("a large answer: %v", err)
		}
		began := time.Now()
		if _, err := a.answer(t.Context(), ask.Request{Command: "slow"}); !errors.Is(err, errTooSlow) || time.Since(began) != maxTime {
			t.Errorf("a slow answer: %v after %v", err, time.Since(began))
		}
		client, leave := context.WithCancel(t.Context())
		ended := make(chan error, maxQuestions)
		for range maxQuestions {
			go func() {
				_, err := a.answer(client, ask.Request{Command: "slow"})
				ended <- err
			}()
		}
		synctest.Wait()
		began = time.Now()
		if _, err := a.answer(t.Context(), ask.Request{Command: "slow"}); !errors.Is(err, errBusy) || time.Since(began) != maxWait {
			t.Errorf("one question too many: %v after %v", err, time.Since(began))
		}
		began = time.Now()
		leave()
		for range maxQuestions {
			if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(began) != 0 {
				t.Errorf("the client left: %v after %v", err, time.Since(began))
			}
		}
	})
}
