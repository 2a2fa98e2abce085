package promql_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/promql"
)

func TestLabels(t *testing.T) {
	tests := map[string][]string{
		`count by (a) (group by (a, b) (m{c="by (d)"})) > 1`:                {"a"},
		`m * on (a) group_left (b, c) topk by (a) (1, group by (a, b) (n))`: {"a", "b", "c"},
		`m and on (a) n`: nil,
	}
	for expr, want := range tests {
		if diff := cmp.Diff(want, promql.Labels(expr)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expr, diff)
		}
	}
}

func TestMetrics(t *testing.T) {
	tests := map[string][]string{
		`up{job="a_b"} == 1`: {"up"},
		`sum by (node) (rate(a_total{x=~"b|c"}[5m] offset 1h)) / on (node) group_left (serial) b:c:d > 0.05 and time() - e < 1e3`: {"a_total", "b:c:d", "e"},
		`max_over_time(timestamp(a{b="c{d}"})[1h:30s]) unless a offset 15m or vector(1)`:                                          {"a", "a"},
		`sum(a_total{b=~"$c"}) / 3.6e6 * $price * ${pue}`:                                                                         {"a_total"},
		`sum({__name__=~"a_(b|c)_total"})`:                                                                                        {"a_(b|c)_total"},
	}
	for expr, want := range tests {
		if diff := cmp.Diff(want, promql.Metrics(expr)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expr, diff)
		}
	}
}

func TestKnown(t *testing.T) {
	known := promql.Known("up", "a:b:c")
	for name, want := range map[string]bool{
		"up": true, "a:b:c": true, "gpuledger_gpu_info": true, "gpuledger_pod_info": true, "gpuledger_(gpu|pod)_info": true,
		"down": false, "gpuledger_gpu_inf": false, "gpuledger_(gpu|dog)_info": false,
	} {
		if got := known(name); got != want {
			t.Errorf("%s is known: %v, want %v", name, got, want)
		}
	}
}
