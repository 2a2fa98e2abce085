//go:build e2e

package rulers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/alerts"
	"github.com/gpuledger/gpuledger/test/program"
)

// inhibition contains the inhibition rules of kube-prometheus-stack. A critical alert or a warning inhibits less severe
// alerts with the same name and namespace. InfoInhibitor inhibits info alerts, but is never sent itself. Alerts without
// the label namespace count as alerts of one namespace.
const inhibition = `
route: {receiver: discard}
receivers: [{name: discard}]
inhibit_rules:
- {source_matchers: [severity = critical], target_matchers: [severity =~ warning|info], equal: [namespace, alertname]}
- {source_matchers: [severity = warning], target_matchers: [severity = info], equal: [namespace, alertname]}
- {source_matchers: [alertname = InfoInhibitor], target_matchers: [severity = info], equal: [namespace]}
- {target_matchers: [alertname = InfoInhibitor]}
`

// TestAlertmanager checks that none of our alerts is inhibited while InfoInhibitor fires. An info alert of another
// project must be inhibited.
func TestAlertmanager(t *testing.T) {
	g := program.OpenFor(t)
	config := g.Path("alertmanager.yaml")
	check(t, os.WriteFile(config, []byte(inhibition), 0o600))
	address := program.AddressFor(t)
	p, err := g.Start("alertmanager", filepath.Join(env(t, "GPULEDGER_E2E_RULERS"), "alertmanager"),
		"--config.file="+config, "--storage.path="+g.Path("data"), "--web.listen-address="+address, "--cluster.listen-address=")
	check(t, err)
	url := "http://" + address
	check(t, p.Ready(t.Context(), url+"/-/ready"))

	type alert struct {
		Labels map[string]string `json:"labels"`
		Status struct {
			State string `json:"state"`
		} `json:"status,omitzero"`
	}
	sent := []alert{
		{Labels: map[string]string{"alertname": "InfoInhibitor", "severity": "none"}},
		{Labels: map[string]string{"alertname": "Else", "severity": "info"}},
	}
	want := map[string]string{"InfoInhibitor none": "suppressed", "Else info": "suppressed"}
	ours, _, err := alerts.Read(folder)
	check(t, err)
	for _, a := range ours {
		sent = append(sent, alert{Labels: map[string]string{"alertname": a.Alert, "severity": a.Labels["severity"]}})
		want[a.Alert+" "+a.Labels["severity"]] = "active"
	}
	body, err := json.Marshal(sent)
	check(t, err)
	answer, err := http.Post(url+"/api/v2/alerts", "application/json", bytes.NewReader(body))
	check(t, err)
	check(t, answer.Body.Close())
	check(t, p.Wait(t.Context(), func() error {
		answer, err := http.Get(url + "/api/v2/alerts")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		var all []alert
		if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
			return err
		}
		got := make(map[string]string)
		for _, a := range all {
			got[a.Labels["alertname"]+" "+a.Labels["severity"]] = a.Status.State
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("states of %v (-want +got):\n%s", slices.Sorted(maps.Keys(want)), diff)
		}
		return nil
	}))
}
