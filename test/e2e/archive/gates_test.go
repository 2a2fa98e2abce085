//go:build e2e

package archive_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/program"
)

// refused checks that the program writes the given number of hours to a folder, and logs why it refuses the other
// hours.
func refused(t *testing.T, folder string, filed int, want string, args ...string) {
	t.Helper()
	out, err := once(t.Context(), folder, args...)
	if err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, want %q in the log:\n%s", err, want, out)
	}
	if got := len(rows(t, folder, "hours")); got != filed {
		t.Errorf("%d hours are filed, want %d", got, filed)
	}
}

func accepted(t *testing.T, folder string, filed int, args ...string) {
	t.Helper()
	if out, err := once(t.Context(), folder, args...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if got := len(rows(t, folder, "hours")); got != filed {
		t.Errorf("%d hours are filed, want %d", got, filed)
	}
}

func accept(t *testing.T, folder string, filed int, args ...string) {
	t.Helper()
	args = append([]string{"accept", "east", "--folder=" + folder, "--folder.format=csv,parquet", "--from=" + began.Format(time.RFC3339)}, args...)
	if out, err := exec.CommandContext(t.Context(), binary(), args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if got := len(rows(t, folder, "hours")); got != filed {
		t.Errorf("%d hours are filed, want %d", got, filed)
	}
}

// TestLagging checks that the last hour is refused while remote write lags. The store is stopped in the middle of the
// hour, so the sender keeps the samples. When these samples have arrived, the hour must be accepted.
func TestLagging(t *testing.T) {
	t.Parallel()
	end := time.Now().UTC().Truncate(time.Hour).Add(-time.Hour)
	begin, outage := end.Add(-3*time.Hour), end.Add(-20*time.Minute)
	s := foldtest.NewStore()
	foldtest.NewFleet(s, begin, 4, 2, "cluster", "east").Run(4 * 60)

	group := program.OpenFor(t)
	store, agent := program.AddressFor(t), program.AddressFor(t)
	startStore := func() *program.Program {
		return victoria(t, group, "victoria-metrics", store, "-storageDataPath="+group.Path("victoria"), "-retentionPeriod=1y", "-search.latencyOffset=0s", "-search.disableCache")
	}
	startAgent := func() *program.Program {
		return victoria(t, group, "vmagent", agent, "-remoteWrite.url=http://"+store+"/api/v1/write", "-remoteWrite.tmpDataPath="+group.Path("agent"),
			"-remoteWrite.queues=1", "-remoteWrite.flushInterval=100ms", "-remoteWrite.retryMaxTime=1s")
	}
	wait := func(p *program.Program, until time.Time) {
		t.Helper()
		check(t, p.Wait(t.Context(), func() error {
			check(t, get(t.Context(), "http://"+store+"/internal/force_flush", nil))
			if got, want := count(t, "http://"+store, `{__name__=~".+"}`, begin, until), s.Samples(begin, until); got != want {
				return fmt.Errorf("%d samples have arrived, want %d", got, want)
			}
			return nil
		}))
	}
	storing, sending := startStore(), startAgent()
	insert(t, "http://"+agent, s, begin, outage)
	wait(storing, outage)
	storing.Stop()
	insert(t, "http://"+agent, s, outage, end.Add(time.Hour))
	sending.Stop() // the sender keeps the samples on its disk

	storing = startStore()
	folder := t.TempDir()
	args := []string{"--store.url=http://" + store, "--store.type=victoriametrics", "--from=" + begin.Format(time.RFC3339), "--until=" + end.Format(time.RFC3339)}
	refused(t, folder, 2, "no samples after the hour", args...)
	startAgent()
	wait(storing, end.Add(time.Hour))
	accepted(t, folder, 3, args...)
}

// TestReplicas checks that an hour with samples from two replicas of Prometheus is refused, unless the store
// deduplicates the samples.
func TestReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	t.Parallel()
	s := foldtest.NewStore()
	foldtest.NewFleet(s, began, 5, 2).Run(hours * 60)
	n := thanos{t, program.OpenFor(t)}
	var sidecars []string
	for _, replica := range []string{"a", "b"} {
		_, grpc := n.sidecar(serve(t, n.group, replica, s, "global: {external_labels: {cluster: east, replica: "+replica+"}}"))
		sidecars = append(sidecars, grpc)
	}
	refused(t, t.TempDir(), 0, "deduplicate the replicas", "--store.url="+n.query(sidecars), "--store.type=thanos")
	accepted(t, t.TempDir(), hours, "--store.url="+n.query(sidecars, "--query.replica-label=replica"), "--store.type=thanos")
}

// TestOutage stops the gateway of a bucket, so the samples of some nodes are missing. The affected hours must be
// refused, and the hours before the outage must be accepted. One Thanos Query has the gateway as a strict endpoint. The
// other Thanos Query has dropped the gateway.
func TestOutage(t *testing.T) {
	t.Parallel()
	s := foldtest.NewStore()
	foldtest.NewFleet(s, began, 8, 6).Run(12 * 60)
	half := func(upper bool) *foldtest.Store {
		return s.Only(func(l fold.Labels) bool { return (l.Get("node") >= "n3") == upper })
	}
	n := thanos{t, program.OpenFor(t)}
	running, sidecar := n.sidecar(serve(t, n.group, "lower", half(false), "global: {external_labels: {cluster: east, part: lower}}"))
	serve(t, n.group, "upper", half(true), "")
	<-n.start("upload-blocks", "--path="+n.group.Path("upper"), `--label=cluster="east"`, `--label=part="upper"`).Ended()
	p, gateway, _ := n.component("gateway", "store", n.bucket(), "--data-dir="+n.group.Path("gateway"))
	// A Thanos Query keeps a strict endpoint even if the endpoint does not respond.
	strict := n.query([]string{sidecar}, "--endpoint-strict="+gateway)
	url := n.query([]string{sidecar, gateway})
	folder := t.TempDir()
	args := func(hours int) []string {
		return []string{"--store.url=" + url, "--store.type=thanos", "--until=" + began.Add(time.Duration(hours)*time.Hour).Format(time.RFC3339)}
	}
	accepted(t, folder, 8, args(8)...)
	p.Kill()
	refused(t, folder, 8, "connection refused", append(args(12), "--store.url="+strict)...)
	refused(t, folder, 8, "the store warns", append(args(12), "--store.url="+strict, "--store.type=prometheus")...)
	check(t, running.Wait(t.Context(), func() error { return n.found(url, 1) }))
	refused(t, folder, 8, "3 of 6 nodes", args(12)...)
	refused(t, folder, 8, "3 of 6 nodes", append(args(12), "--from="+began.Add(10*time.Hour).Format(time.RFC3339))...)
	accept(t, folder, 12, "--store.url="+url, "--store.type=thanos", "--to="+began.Add(12*time.Hour).Format(time.RFC3339), "--reason=nodes were removed")
}

// TestDownsampled checks that an hour is refused if the bucket contains only downsampled blocks of it.
func TestDownsampled(t *testing.T) {
	t.Parallel()
	s := foldtest.NewStore()
	foldtest.NewFleet(s, began, 6, 2).Run(4 * 24 * 60)
	n := thanos{t, program.OpenFor(t)}
	serve(t, n.group, "store", s, "").Group.Kill()
	<-n.start("upload-blocks", "--path="+n.group.Path("store"), `--label=cluster="east"`).Ended()
	raw, err := filepath.Glob(n.group.Path("bucket", "*"))
	check(t, err)
	p := n.start("downsample")
	check(t, p.Wait(t.Context(), func() error {
		all, err := filepath.Glob(n.group.Path("bucket", "*", "meta.json"))
		if len(all) == len(raw) {
			err = errors.New("no block is downsampled")
		}
		return err
	}))
	p.Stop()
	for _, block := range raw { // the other blocks have expired
		check(t, os.RemoveAll(block))
	}
	_, gateway, _ := n.component("gateway", "store", n.bucket(), "--data-dir="+n.group.Path("gateway"))
	url := n.query([]string{gateway})
	refused(t, t.TempDir(), 0, "downsampled: query raw data", "--store.url="+url+"?max_source_resolution=5m")
	refused(t, t.TempDir(), 0, "no boards", "--store.url="+url, "--store.type=thanos")
}
