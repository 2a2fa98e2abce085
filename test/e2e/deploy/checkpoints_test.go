//go:build e2e

package deploy_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
)

const checkpointsFile = "../../../manifests/components/checkpoints/checkpoints.yaml"

// checkpointsURL writes the files of a service account, as in a pod. It returns the ConfigMap's URL with these files.
func checkpointsURL(t *testing.T, config *rest.Config, name string) string {
	t.Helper()
	account := t.TempDir()
	ca, err := os.ReadFile(config.CAFile)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(account, "ca.crt"), ca, 0o600))
	check(t, os.WriteFile(filepath.Join(account, "token"), []byte(config.BearerToken+"\n"), 0o600))
	return "configmap:gpuledger/" + name + "?" + url.Values{"server": {config.Host}, "account": {account}}.Encode()
}

// TestCheckpoints publishes the checkpoints of several archives at the same time in a ConfigMap of a real API server,
// with the rights from the manifests. Then it uses these checkpoints to detect a truncated chain.
func TestCheckpoints(t *testing.T) {
	ctx := t.Context()
	created := meta.CreateOptions{}
	_, err := world.Client.CoreV1().Namespaces().Create(ctx, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "gpuledger"}}, created)
	check(t, err)
	t.Cleanup(func() { remove(t, "namespace", "gpuledger") })
	apply(t, "-f", checkpointsFile)
	_, err = world.Client.CoreV1().ServiceAccounts("gpuledger").Create(ctx, &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: "gpuledger-archive"}}, created)
	check(t, err)
	config, err := world.ServiceAccount(ctx, "gpuledger", "gpuledger-archive")
	check(t, err)
	to := checkpointsURL(t, config, "gpuledger-checkpoints")

	sampled := chain.Checkpoint{Cluster: "east", Hash: "00", Key: "key", Signature: "c2ln"}
	const archives, rounds = 4, 5
	failed := make(chan error)
	for n := range archives {
		go func() {
			var err error
			for i := 1; i <= rounds && err == nil; i++ {
				c := sampled
				c.Sink, c.Sequence, c.Time = fmt.Sprintf("sink-%d", n), int64(i), time.Date(2026, 10, 1, i, 5, 0, 0, time.UTC)
				err = chain.Publish(ctx, to, "", c)
			}
			failed <- err
		}()
	}
	for range archives {
		check(t, <-failed)
	}
	apply(t, "-f", checkpointsFile) // an upgrade keeps the checkpoints
	for n := range archives {
		all, err := chain.Published(ctx, to, "", fmt.Sprintf("sink-%d", n))
		if err != nil || len(all) != rounds {
			t.Errorf("%d checkpoints of archive %d: %v", len(all), n, err)
		}
	}
	testCheckpointRights(t, config)
	testWitness(t, to)
}

func testCheckpointRights(t *testing.T, config *rest.Config) {
	t.Helper()
	ctx := t.Context()
	client, err := kubernetes.NewForConfig(config)
	check(t, err)
	maps := client.CoreV1().ConfigMaps("gpuledger")
	for name, do := range map[string]func() error{
		"delete": func() error { return maps.Delete(ctx, "gpuledger-checkpoints", meta.DeleteOptions{}) },
		"create": func() error {
			_, err := maps.Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: "another"}}, meta.CreateOptions{})
			return err
		},
		"list":         func() error { _, err := maps.List(ctx, meta.ListOptions{}); return err },
		"another one":  func() error { _, err := maps.Get(ctx, "another", meta.GetOptions{}); return err },
		"a Secret":     func() error { _, err := client.CoreV1().Secrets("gpuledger").List(ctx, meta.ListOptions{}); return err },
		"its own role": func() error { _, err := client.RbacV1().Roles("gpuledger").List(ctx, meta.ListOptions{}); return err },
	} {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want an error of kind Forbidden", name, err)
		}
	}
	sample := chain.Checkpoint{Sink: "a", Cluster: "east", Sequence: 1}
	if err := chain.Publish(ctx, checkpointsURL(t, config, "another"), "", sample); err == nil || !strings.Contains(err.Error(), "get and update") || strings.Contains(err.Error(), config.BearerToken) {
		t.Errorf("another ConfigMap: %v", err)
	}
	if err := chain.Publish(ctx, checkpointsURL(t, world.Admin, "another"), "", sample); err == nil || !strings.Contains(err.Error(), "kubectl create configmap another") {
		t.Errorf("a missing ConfigMap: %v", err)
	}
}

// testWitness replaces an archive with a shorter one. The command verify must detect this by the checkpoints in the
// ConfigMap.
func testWitness(t *testing.T, witness string) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	keys := t.TempDir()
	signer := sinktest.KeyFiles(t, filepath.Join(keys, "chain.pem"), filepath.Join(keys, "public.pem"))
	file := func(hours int) (folder string) {
		folder = t.TempDir()
		sink, err := files.Open(folder, []string{"csv"})
		check(t, err)
		sink.SignWith(signer)
		for n := range hours {
			check(t, sink.Replace(t.Context(), sinktest.Hour(time.Date(2026, 10, 1, n, 0, 0, 0, time.UTC), int64(n)+1)))
		}
		head, err := sink.Head(t.Context(), sinktest.Cluster)
		check(t, err)
		if hours == 3 {
			check(t, chain.Publish(t.Context(), witness, "", chain.CheckpointOf("folder", head)))
		}
		check(t, sink.Close())
		return folder
	}
	whole, cut := file(3), file(2)
	for folder, want := range map[string]int{whole: 0, cut: 1} {
		var out strings.Builder
		args := []string{"verify", "--chain", "--books=" + folder, "--public-key=" + filepath.Join(keys, "public.pem"), "--witness=" + witness, "--chain.sink=folder"}
		if got := ask.Run(t.Context(), args, ask.Terminal{Out: &out, Err: &out, Program: "gpuledger-archive"}, time.Now()); got != want {
			t.Errorf("status %d, want %d:\n%s", got, want, out.String())
		}
	}
}
