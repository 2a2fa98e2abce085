//go:build e2e

package reconciler_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
)

// TestFaults checks that the reconciler repeats a failed write until it succeeds, but not too often.
func TestFaults(t *testing.T) {
	tests := []struct {
		name    string
		status  meta.Status
		failure string // label value of the counter of failures
	}{
		{"conflict", meta.Status{Code: http.StatusConflict, Reason: meta.StatusReasonConflict, Message: "somebody else was faster"}, "conflict"},
		{"forbidden", meta.Status{Code: http.StatusForbidden, Reason: meta.StatusReasonForbidden, Message: "denied by a policy"}, "forbidden"},
		{"too many requests", meta.Status{Code: http.StatusTooManyRequests, Reason: meta.StatusReasonTooManyRequests, Message: "slow down"}, "throttled"},
		{"internal error", meta.Status{Code: http.StatusInternalServerError, Reason: meta.StatusReasonInternalError, Message: "etcd is gone"}, "error"},
		{"unavailable", meta.Status{Code: http.StatusServiceUnavailable, Reason: meta.StatusReasonServiceUnavailable, Message: "starting"}, "error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, p := newNode(t, "a", "1"), newProxy(t)
			var refused atomic.Int64
			p.fails(func(r *http.Request) *meta.Status {
				if r.Method != http.MethodPatch || r.URL.Path != "/api/v1/nodes/a" {
					return nil
				}
				refused.Add(1)
				return &tt.status
			})
			r := start(t, p.access, "--enable=labels")
			begun := time.Now()
			eventually(t, "three writes were refused", func() bool { return refused.Load() >= 3 })
			if took := time.Since(begun); took < time.Second {
				t.Errorf("three attempts within %v", took)
			}
			// client-go repeats the request a few times, after the delays in the response.
			eventually(t, "the failure is counted", func() bool {
				return r.value("gpuledger_reconciler_node_write_failures_total", map[string]string{"failure": tt.failure}) > 0
			})
			p.fails(nil)
			n.awaitLabels(serials("1"))
		})
	}
}

// TestHangingWrites checks that writes time out, even if all concurrent writes hang. Then the reconciler must write all
// Nodes.
func TestHangingWrites(t *testing.T) {
	p := newProxy(t)
	nodes := []*node{newNode(t, "a", "1"), newNode(t, "b", "2"), newNode(t, "c", "3"), newNode(t, "d", "4"), newNode(t, "e", "5")}
	var writes atomic.Int64
	p.fails(func(r *http.Request) *meta.Status {
		if r.Method != http.MethodPatch || writes.Add(1) > 4 {
			return nil
		}
		_, _ = io.Copy(io.Discard, r.Body) // without reading the body, the server does not detect a cancelled request
		<-r.Context().Done()
		return &meta.Status{Code: http.StatusGatewayTimeout}
	})
	start(t, p.access, "--enable=labels")
	eventually(t, "four writes hang", func() bool { return writes.Load() >= 4 })
	for i, n := range nodes {
		n.awaitLabels(serials(strconv.Itoa(i + 1)))
	}
}

// TestOutage checks that an outage of the API server changes no labels. No burst of requests may follow it.
func TestOutage(t *testing.T) {
	n, p := newNode(t, "a", "1"), newProxy(t)
	r := start(t, p.access, "--enable=labels")
	n.awaitLabels(serials("1"))
	since := now(t)
	gone := meta.Status{Code: http.StatusServiceUnavailable, Reason: meta.StatusReasonServiceUnavailable, Message: "gone"}
	p.fails(func(*http.Request) *meta.Status { return &gone })
	r.await("lost leadership") // the replica could not renew the Lease
	p.fails(nil)
	eventually(t, "the replica leads again", func() bool { return len(r.logLines(`"msg":"leading"`)) == 2 })
	n.awaitReads(t, 3)
	if writes := nodeWrites(t, since); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
	if diff := cmp.Diff(serials("1"), n.labels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// TestHandover checks that the second replica takes over when the first replica ends, and serves the same series. After
// a clean shutdown, it must take over immediately.
func TestHandover(t *testing.T) {
	n := newNode(t, "a", "1")
	first := lead(t, "--leader-election.identity=first")
	access := must(world.ServiceAccount(t.Context(), namespace, account))(t)
	second := start(t, access, "--leader-election.identity=second")
	second.await("following")
	n.awaitLabels(serials("1"))

	machine := map[string]string{"node": "a", "machine": "i-a"}
	const metric = "gpuledger_node_machine_info"
	if got := len(first.scrape().Matches(metric, machine)); got != 1 {
		t.Errorf("the leader shows %d machines", got)
	}
	if got := len(second.scrape().Matches(metric, nil)); got != 0 {
		t.Errorf("the follower shows %d machines", got)
	}
	since := now(t)
	took := first.stop()
	second.await("leading")
	t.Logf("the first replica ended within %v", took.Round(time.Millisecond))
	eventually(t, "the new leader shows the machine", func() bool { return len(second.scrape().Matches(metric, machine)) == 1 })
	n.awaitReads(t, 3)
	if writes := nodeWrites(t, since); len(writes) > 0 {
		t.Errorf("writes after the second replica took over: %v", writes)
	}
}

// TestDeletedLease checks that the leader creates the Lease again and continues. It must stop if someone makes another
// replica the holder.
func TestDeletedLease(t *testing.T) {
	leases := world.Client.CoordinationV1().Leases(namespace)
	r := lead(t, "--enable=labels")
	check(t, leases.Delete(t.Context(), account, meta.DeleteOptions{}))
	eventually(t, "there is a Lease", func() bool {
		lease, err := leases.Get(t.Context(), account, meta.GetOptions{})
		return err == nil && *lease.Spec.HolderIdentity == t.Name()
	})
	if lost := r.logLines("lost leadership"); len(lost) > 0 {
		t.Errorf("the leader did not continue: %v", lost)
	}
	_ = must(leases.Patch(t.Context(), account, types.MergePatchType, []byte(`{"spec":{"holderIdentity":"other"}}`), meta.PatchOptions{}))(t)
	r.await("lost leadership")
	eventually(t, "it leads again after the Lease has expired", func() bool { return len(r.logLines(`"msg":"leading"`)) == 2 })
}

func TestKubeconfig(t *testing.T) {
	n := newNode(t, "a", "1")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	r := execute(t, "--kubeconfig="+kubeconfig, "--web.listen-address=127.0.0.1:0", "--enable=labels", "--confirm=100ms",
		"--leader-election.namespace="+namespace, "--leader-election.identity=late", "--leader-election.duration=2s",
		"--exporter.daemonsets="+exporterNamespace+"/"+daemonSetName)
	eventually(t, "the log names the file", func() bool { return len(r.logLines(kubeconfig)) > 0 })
	check(t, cluster.WriteKubeconfig(kubeconfig+".new", must(world.ServiceAccount(t.Context(), namespace, account))(t)))
	check(t, os.Rename(kubeconfig+".new", kubeconfig))
	n.awaitLabels(serials("1"))
}
