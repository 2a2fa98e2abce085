package watch_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

type informer struct {
	cache.SharedIndexInformer
	fail cache.WatchErrorHandlerWithContext
}

func (i *informer) SetWatchErrorHandlerWithContext(h cache.WatchErrorHandlerWithContext) error {
	i.fail = h
	return nil
}

// TestFailures checks that each failure is counted, but logged only once. The end of a watch must not count as a
// failure.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		f := watch.New(slog.New(slog.NewTextHandler(&out, nil)))
		var pods informer
		f.Follow(&pods, watch.Pods)
		fails := func(err error, counted float64, logged int) {
			t.Helper()
			pods.fail(context.Background(), nil, err)
			var m dto.Metric
			if err := f.WithLabelValues(watch.Pods).Write(&m); err != nil || m.Counter.GetValue() != counted {
				t.Errorf("%v failures counted, want %v (%v)", m.Counter.GetValue(), counted, err)
			}
			if got := strings.Count(out.String(), "cannot watch resource"); got != logged {
				t.Errorf("%d failures logged, want %d:\n%s", got, logged, &out)
			}
		}
		forbidden, gone := errors.New("forbidden"), errors.New("gone away")
		fails(io.EOF, 0, 0)
		fails(io.ErrUnexpectedEOF, 0, 0)
		fails(apierrors.NewResourceExpired("too old"), 0, 0)
		fails(&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonGone}}, 0, 0)
		fails(forbidden, 1, 1)
		fails(forbidden, 2, 1)
		fails(gone, 3, 2)
		time.Sleep(time.Hour)
		fails(gone, 4, 3)
	})
}
