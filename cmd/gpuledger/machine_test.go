//go:build realtime

package main_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/status"
)

// unitFlags returns the exporter's flags in the example of a systemd unit.
func unitFlags(t *testing.T) []string {
	t.Helper()
	unit, err := os.ReadFile("../../manifests/examples/systemd/gpuledger.service")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(unit)) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart=/usr/bin/gpuledger "); ok {
			return strings.Fields(strings.NewReplacer("%H", "gpu-host-1", "$ARGS", "").Replace(command))
		}
	}
	t.Fatal("the unit does not start the exporter")
	return nil
}

// machineCommands returns the commands in docs/machine.md. The first command starts the exporter; the other two are for
// a second terminal.
func machineCommands(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/machine.md")
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for line := range strings.Lines(string(page)) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			commands = append(commands, command)
		}
	}
	if len(commands) != 3 {
		t.Fatalf("docs/machine.md has the commands %q, want 3", commands)
	}
	return commands
}

// On a machine without Kubernetes, the exporter runs with the flags of the systemd unit. It must report every board and
// every joule, and must charge the energy of a service to its unit. No stage may be down, and the log may contain no
// warning. The commands in docs/machine.md must work.
func TestWithoutKubernetes(t *testing.T) {
	if _, err := app.Parse(unitFlags(t), os.Getenv); err != nil {
		t.Error(err)
	}
	n := newNode(t, "idle")
	e := start(t, n, append(unitFlags(t), "--log.format=json", unhurried, "--path.container-logs=/nonexistent", "--path.pod-logs=/nonexistent")...)
	p := e.scrapeUntil("a service is charged energy", func(p page) bool {
		return p.Millijoules("gpuledger_unit_energy_joules_total", map[string]string{"manager": "systemd", "unit": "display-manager"}) > 0
	})
	checkBalance(t, p)
	if n := len(p.UUIDs()); n != 8 {
		t.Errorf("%d GPUs, want 8", n)
	}
	out, err := exec.Command(binary, "status", "--url="+e.url).CombinedOutput()
	if s := string(out); err != nil || !strings.HasPrefix(s, "gpu-host-1: 8 GPUs present") || strings.Contains(s, "\n! ") || strings.Contains(s, "DOWN") {
		t.Errorf("gpuledger status: %v\n%s", err, s)
	}
	commands := machineCommands(t)
	for flag := range strings.FieldsSeq(strings.Replace(commands[0], `"$(hostname)"`, "gpu-host-1", 1)) {
		if strings.HasPrefix(flag, "-") && !slices.Contains(unitFlags(t), flag) {
			t.Errorf("docs/machine.md: the service runs without %s", flag)
		}
	}
	here := strings.NewReplacer("./gpuledger status", binary+" status --url="+e.url, "http://localhost:9840", e.url)
	for _, command := range commands[1:] {
		out, err := exec.Command("bash", "-c", here.Replace(command)).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "GPU") {
			t.Errorf("docs/machine.md: %s: %v\n%s", command, err, out)
		}
	}
	if first := e.logged()[0]; !strings.Contains(first, `"msg":"starting","version":`) {
		t.Errorf("the log begins with %s", first)
	}
	for _, line := range e.logged() {
		if !strings.Contains(line, `"level":"INFO"`) {
			t.Errorf("log: %s", line)
		}
	}
}

// The defaults file of the packages must not set a flag. It must contain a comment with the line that makes the
// exporter listen on loopback only. docs/machine.md must show the same line.
func TestDefaultsFile(t *testing.T) {
	file, err := os.ReadFile("../../packages/gpuledger.default")
	if err != nil {
		t.Fatal(err)
	}
	set := regexp.MustCompile(`(?m)^(#?)ARGS="(.*)"$`).FindAllStringSubmatch(string(file), -1)
	if len(set) != 2 || set[0][1]+set[0][2] != "" || set[1][1] != "#" {
		t.Fatalf("the file sets %q, want an empty ARGS and then one comment", set)
	}
	cfg, err := app.Parse(append(unitFlags(t), strings.Fields(set[1][2])...), os.Getenv)
	if err != nil || !slices.Equal(cfg.Serve.ListenAddresses, []string{"127.0.0.1:9840"}) {
		t.Errorf("error %v, addresses %q, want 127.0.0.1:9840", err, cfg.Serve.ListenAddresses)
	}
	page, err := os.ReadFile("../../docs/machine.md")
	if err != nil || !strings.Contains(string(page), strings.TrimPrefix(set[1][0], "#")) {
		t.Errorf("docs/machine.md has no %s (error %v)", set[1][0], err)
	}
}

// Without a driver, a kubelet and a state directory, the exporter must serve its pages. The status page and the command
// status must name each missing part and its flag.
func TestNothingToRead(t *testing.T) {
	missing := t.TempDir() + "/missing"
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := run(t, nil, "--nvml.library="+missing, "--kubelet.pod-resources-socket="+missing+"/kubelet/kubelet.sock",
		"--path.container-logs="+missing, "--state.path="+file)
	out, err := exec.Command(binary, "status", "--url="+e.url).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	code, html := e.get("/")
	if code != http.StatusOK {
		t.Errorf("the status page has status code %d", code)
	}
	for _, want := range []string{"no GPU found", "--nvml.library", "--kubelet.pod-resources-socket=", "--state.path"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("gpuledger status does not contain %q:\n%s", want, out)
		}
		if !bytes.Contains(html, []byte(want)) {
			t.Errorf("the status page does not contain %q", want)
		}
	}
	if code, page := e.get(status.Path); code != http.StatusOK || !bytes.Contains(page, []byte(`"error": `)) {
		t.Errorf("%s: status %d: %s", status.Path, code, page)
	}
}
