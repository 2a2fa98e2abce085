package ask

import (
	"context"
	"fmt"

	"github.com/gpuledger/gpuledger/internal/archive/print"
)

// exports contains a function for each format that another system reads.
var exports = map[string]func(*question, context.Context) (print.Answer, error){
	"focus":            func(q *question, ctx context.Context) (print.Answer, error) { return q.focus(ctx, true) },
	"focus-1.3":        func(q *question, ctx context.Context) (print.Answer, error) { return q.focus(ctx, true) },
	"focus-1.2":        func(q *question, ctx context.Context) (print.Answer, error) { return q.focus(ctx, false) },
	"impact-framework": (*question).impact,
}

// export answers in a format that another system reads: as CSV, or as JSON with -o json.
func (q *question) export(ctx context.Context) (print.Answer, error) {
	write, ok := exports[q.Format]
	if !ok {
		return print.Answer{}, Invalid(fmt.Errorf("--format=%s: must be focus (1.3), focus-1.2 or impact-framework", q.Format))
	}
	return write(q, ctx)
}

// detailColumns contains the columns of charges that these formats need.
var detailColumns = []string{"cluster", "node", "uuid", "serial", "model", "namespace", "pod", "pod_uid", "workload_kind", "workload_name", "manager", "unit", "username", "team", "queue", "cluster_queue", "labels", "reason", "hour"}
