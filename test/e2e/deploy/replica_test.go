//go:build e2e

package deploy_test

import (
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/program"
)

type replica struct {
	*program.Program
	address string // listen address of the webhook
	metrics string // URL of the page with metrics
}

// serveWebhook runs the reconciler with the arguments in its Deployment and the rights of its service account. It
// routes the API server's calls of the webhook to this reconciler.
func serveWebhook(t *testing.T) *replica {
	t.Helper()
	r := startReplica(t, "one")
	eventually(t, "the reconciler is ready", func() bool { return ready(t, r) })
	world.egress.Route(r.address)
	t.Cleanup(func() { world.egress.Route("") })
	return r
}

func startReplica(t *testing.T, name string, flags ...string) *replica {
	t.Helper()
	r := &replica{address: program.AddressFor(t), metrics: program.AddressFor(t)}
	args := append(deploymentArguments(t), access(t)...)
	args = append(args, "--webhook.listen-address="+r.address, "--web.listen-address="+r.metrics, "--leader-election.namespace=gpuledger",
		"--leader-election.identity="+name, "--leader-election.duration=2s", "--resync=1s", "--confirm=100ms")
	args = append(args, flags...)
	p, err := program.OpenFor(t).Start("gpuledger-reconciler", program.BuiltFor(t, "gpuledger-reconciler"), args...)
	check(t, err)
	r.Program = p
	return r
}

func ready(t *testing.T, r *replica) bool {
	t.Helper()
	out, err := tryShell(t, "", "curl --silent --fail http://"+r.metrics+"/-/ready")
	return err == nil && out == "ready\n"
}

func requests(t *testing.T, r *replica, result string) float64 {
	t.Helper()
	page, err := exposition.Scrape(t.Context(), "http://"+r.metrics+"/metrics")
	check(t, err)
	sum := 0.0
	for _, m := range page.Matches("gpuledger_reconciler_webhook_requests_total", map[string]string{"result": result}) {
		sum += exposition.Value(m)
	}
	return sum
}

func trusted(t *testing.T) {
	t.Helper()
	eventually(t, "the webhook has caBundle", func() bool {
		w, err := world.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "gpuledger", meta.GetOptions{})
		check(t, err)
		return len(w.Webhooks[0].ClientConfig.CABundle) > 0
	})
}
