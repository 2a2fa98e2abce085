//go:build e2e

package kubelet_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/test/exposition"
)

const exporterURL = "http://127.0.0.1:9840"

// testExporter checks the owners' names and the energy that the shipped exporter reports, before and after a restart of
// the kubelet. The exporter uses the paths of production. A fake driver reports the real processes of the containers.
func (n *node) testExporter(t *testing.T) {
	n.run(t, trainer())
	n.run(t, server())
	all := slices.DeleteFunc(containers(t), func(r running) bool { return r.Sandbox })
	n.startDriver(t, all)
	t.Setenv("GPULEDGER_FAKE_NVML_STATE", n.driverState())
	exporter := start(t, n.dir, "sh", "-c", inPod(t), filepath.Join(n.dir, "gpuledger"),
		"--web.listen-address=127.0.0.1:9840", "--node.name="+nodeName, "--tick=500ms", "--log.format=json",
		"--nvml.library="+filepath.Join(n.dir, "libnvidia-ml.so.1"))

	var p page
	ready := func() bool {
		p = scrape()
		return up(p, "processes", "container_logs", "pod_resources") && len(charged(p)) == len(holders(all))
	}
	eventually(t, "every container that holds a GPU is charged for it", ready)
	checkPage(t, p, all)

	n.kubelet.stop(t)
	eventually(t, "the exporter reports pod_resources as down", func() bool { return !up(scrape(), "pod_resources") })
	n.startKubelet()
	eventually(t, "the exporter reads the new kubelet", ready)
	checkPage(t, p, all)
	exporter.stop(t)
	log, err := os.ReadFile(exporter.log)
	check(t, err)
	t.Logf("log of gpuledger:\n%s", log)
}

// inPod returns a shell command that enters the cgroup of a pod and then executes another program, like a sidecar with
// hostPID. Without it, the exporter would assume that process 1 of this test's PID namespace is in its own container.
// Then it would not find the host. The kubelet does not manage this pod.
func inPod(t *testing.T) string {
	t.Helper()
	uid := newUID()
	var script strings.Builder
	for _, h := range hierarchies() {
		top := filepath.Join(h, "kubelet-sidecar")
		dir := filepath.Join(top, "kubepods", "pod"+uid, strings.Repeat("5e", 32))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			continue // the test may not change this hierarchy
		}
		t.Cleanup(func() { check(t, removeCgroup(top)) })
		fmt.Fprintf(&script, "echo $$ 2>/dev/null >%s/cgroup.procs; ", dir)
	}
	return script.String() + `exec "$0" "$@"`
}

// checkPage checks that the page contains the names, UIDs and container ids that containerd reports. No process may be
// unmapped, and the accounts must add up to the GPUs' energy.
func checkPage(t *testing.T, p page, all []running) {
	t.Helper()
	for _, r := range holders(all) {
		of := map[string]string{"namespace": r.Scope, "pod": r.Name, "pod_uid": r.UID, "container": r.Part}
		for _, uuid := range r.Devices {
			of["UUID"] = uuid
			of["resource"], of["sharing"] = resource, "exclusive"
			if len(p.Matches("gpuledger_container_gpu_info", of)) != 1 {
				t.Errorf("gpuledger_container_gpu_info%v is missing", of)
			}
			delete(of, "resource")
			delete(of, "sharing")
			for _, pid := range r.PIDs {
				of["pid"], of["container_id"] = fmt.Sprint(pid), r.ID
				if len(p.Matches("gpuledger_process_info", of)) != 1 {
					t.Errorf("gpuledger_process_info%v is missing", of)
				}
				delete(of, "pid")
				delete(of, "container_id")
			}
		}
	}
	if got := p.Sum("gpuledger_processes", map[string]string{"mapped": "false"}); got != 0 {
		t.Errorf("%v processes are unmapped, want 0", got)
	}
	for _, reason := range []string{"host", "unmapped", "unknown", "gap"} {
		if got := p.Sum("gpuledger_unattributed_energy_joules_total", map[string]string{"reason": reason}); got != 0 {
			t.Errorf("%v J are unattributed for reason %s, want 0", got, reason)
		}
	}
	checkBalance(t, p)
}

func checkBalance(t *testing.T, p page) {
	t.Helper()
	for _, uuid := range gpus {
		of := map[string]string{"UUID": uuid}
		energy, accounts := p.Sum("gpuledger_gpu_energy_joules_total", of), p.Sum("gpuledger_container_energy_joules_total", of)+
			p.Sum("gpuledger_unattributed_energy_joules_total", of)+p.Sum("gpuledger_retired_energy_joules_total", of)
		if math.Round(energy*1000) != math.Round(accounts*1000) {
			t.Errorf("%s: energy of the board %v J, sum of its accounts %v J, want equal", uuid, energy, accounts)
		}
	}
}

func holders(all []running) []running {
	return slices.DeleteFunc(slices.Clone(all), func(r running) bool { return len(r.Devices) == 0 })
}

// charged returns the containers to which energy is charged with the method exclusive.
func charged(p page) map[gpu.Owner]bool {
	found := make(map[gpu.Owner]bool)
	for _, m := range p.Matches("gpuledger_container_energy_joules_total", map[string]string{"method": "exclusive"}) {
		l := exposition.Labels(m)
		if m.GetCounter().GetValue() > 0 {
			found[gpu.Owner{Kind: gpu.OwnerPod, Scope: l["namespace"], Name: l["pod"], UID: l["pod_uid"], Part: l["container"]}] = true
		}
	}
	return found
}

type page = exposition.Page

func scrape() page {
	response, err := http.Get(exporterURL + "/metrics")
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil
	}
	p, err := exposition.Parse(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	return p
}

func up(p page, stages ...string) bool {
	return !slices.ContainsFunc(stages, func(s string) bool {
		return p.Sum("gpuledger_stage_up", map[string]string{"stage": s}) != 1
	})
}

func (n *node) driverState() string { return filepath.Join(n.dir, "driver.tsv") }

// startDriver updates the fake driver's state until the test ends. Each GPU draws 200 W and lists the processes of the
// containers that hold it. Package fakes describes the format.
func (n *node) startDriver(t *testing.T, all []running) {
	t.Helper()
	began := time.Now()
	write := func() error {
		var s strings.Builder
		s.WriteString("driver\tversion=580.82.07\tnvml=13.580.82.07\tgeneration=1\tloaded=1\n")
		energy := time.Since(began).Milliseconds() * 200 // in mJ
		for i, uuid := range gpus {
			fmt.Fprintf(&s, "gpu\tindex=%d\tuuid=%s\tminor=%d\tbus=00000000:%02X:00.0\tname=NVIDIA H100 80GB HBM3\tserial=165000000000%d\tenergy=%d\tpower=200000\tpower_limit=700000\tpower_max=700000\tprocesses=1\n",
				i, uuid, i, 0x10+i, i, 1_000_000+energy)
		}
		for _, r := range all {
			for _, uuid := range r.Devices {
				for _, pid := range r.PIDs {
					fmt.Fprintf(&s, "process\tgpu=%s\tpid=%d\tkind=compute\tmemory=%d\n", uuid, pid, 1<<30)
				}
			}
		}
		written := n.driverState() + ".new"
		if err := os.WriteFile(written, []byte(s.String()), 0o644); err != nil {
			return err
		}
		return os.Rename(written, n.driverState())
	}
	check(t, write())
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		var err error
		for err == nil {
			select {
			case <-stop:
				done <- nil
				return
			case <-tick.C:
				err = write()
			}
		}
		done <- err
	}()
	t.Cleanup(func() {
		close(stop)
		check(t, <-done)
	})
}
