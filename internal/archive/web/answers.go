package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/books"
)

const (
	maxTime      = time.Minute      // maximum time for an answer
	maxWait      = 10 * time.Second // maximum wait for other questions
	maxQuestions = 4                // maximum number of questions that are answered at the same time
	maxRows      = 100_000          // maximum number of rows in an answer
	keptTime     = time.Minute      // time for which an answer stays in the cache
	keptRows     = 50_000           // maximum number of rows in all cached answers
)

var (
	errBusy    = fmt.Errorf("%d other questions are being answered: repeat the request in a minute", maxQuestions)
	errTooSlow = fmt.Errorf("the answer takes more than %v: select fewer hours with from and to, or run the command", maxTime)
	errTooMany = fmt.Errorf("the answer has more than %d rows: select fewer hours or larger groups, or run the command", maxRows)
)

// answers runs commands within these limits. It caches each answer for a minute.
type answers struct {
	ask   func(context.Context, ask.Request) (*ask.Reply, error)
	now   func() time.Time
	turns *semaphore.Weighted

	mu   sync.Mutex
	kept map[string]kept
	rows int // number of rows in all cached answers
}

type kept struct {
	reply   *ask.Reply
	expires time.Time
}

func newAnswers(library *ask.Library, turns *semaphore.Weighted) *answers {
	limited := *library
	limited.MaxSums = maxRows
	return &answers{ask: limited.Answer, now: library.Now, turns: turns, kept: make(map[string]kept)}
}

// Callers must not change the reply.
func (a *answers) answer(ctx context.Context, r ask.Request) (*ask.Reply, error) {
	key, err := json.Marshal(r) // the key includes the request and the scope of the reader
	if err != nil {
		return nil, err
	}
	if reply := a.known(string(key)); reply != nil {
		return reply, nil
	}
	if err := a.enter(ctx); err != nil {
		return nil, err
	}
	defer a.turns.Release(1)
	if reply := a.known(string(key)); reply != nil { // another request got the answer in the meantime
		return reply, nil
	}
	limited, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	reply, err := a.ask(limited, r)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && errors.Is(limited.Err(), context.DeadlineExceeded):
		return nil, errTooSlow
	case errors.Is(err, books.ErrTooMany):
		return nil, errTooMany
	case err != nil:
		return nil, err
	case rowsOf(reply) > maxRows:
		return nil, errTooMany
	}
	a.keep(string(key), reply)
	return reply, nil
}

// enter waits until the number of running questions is below maxQuestions.
func (a *answers) enter(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	err := a.turns.Acquire(waiting, 1)
	if err != nil && ctx.Err() == nil {
		return errBusy
	}
	return err
}

func (a *answers) known(key string) *ask.Reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.kept[key]; a.now().Before(k.expires) {
		return k.reply
	}
	return nil
}

// keep caches an answer with at most keptRows rows, and removes expired answers. If the cache then has too many rows,
// it keeps only the new answer.
func (a *answers) keep(key string, reply *ask.Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if rowsOf(reply) > keptRows {
		return
	}
	now := a.now()
	a.rows += rowsOf(reply)
	for key, k := range a.kept {
		if a.rows > keptRows || !now.Before(k.expires) {
			a.rows -= rowsOf(k.reply)
			delete(a.kept, key)
		}
	}
	if old, ok := a.kept[key]; ok {
		a.rows -= rowsOf(old.reply)
	}
	a.kept[key] = kept{reply, now.Add(keptTime)}
}

// rowsOf adds 1 to the number of rows, so that an answer without rows also counts.
func rowsOf(r *ask.Reply) int {
	n := 1 + len(r.Answer.Rows)
	for _, page := range r.Pages {
		for _, section := range page.Sections {
			n += len(section.Rows)
		}
	}
	return n
}
