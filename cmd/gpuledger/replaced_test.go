//go:build realtime

package main_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/test/exposition"
)

var newDriver = simnode.Driver{Version: "999.10.01", NVML: "12.999.10.01"}

type upgradable struct {
	*simnode.Node
	t       *testing.T
	folder  string
	version string // version of the first driver
}

func newUpgradable(t *testing.T) *upgradable {
	sc, err := simnode.Lookup("dgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	n := &upgradable{newNode(t, sc.Name), t, t.TempDir(), sc.Driver.Version}
	n.install(n.version)
	return n
}

// As in a distribution, the path of the library is a link to a file with the version in its name.
func (n *upgradable) library() string { return filepath.Join(n.folder, "libnvidia-ml.so.1") }

func (n *upgradable) install(version string) {
	n.t.Helper()
	old, _ := filepath.EvalSymlinks(n.library())
	file := "libnvidia-ml.so." + version
	for _, err := range []error{
		fakes.OfVersion(library, filepath.Join(n.folder, file), version),
		os.Symlink(file, n.library()+".new"), os.Rename(n.library()+".new", n.library()), os.RemoveAll(old),
	} {
		if err != nil {
			n.t.Fatal(err)
		}
	}
}

func (n *upgradable) upgrade() {
	n.Happen(simnode.Event{Do: simnode.UnloadDriver}, simnode.Event{At: time.Second, Do: simnode.LoadDriver, Driver: &newDriver})
}

// The default is a minute, which would make the tests slow.
const restartAfter = "--nvml.restart-after=3s"

// The readiness page must contain the versions of the loaded driver and of the library.
func (n *upgradable) awaitNotReady(e *exporter) {
	n.t.Helper()
	const want = "not ready: driver 999.10.01 is loaded in the kernel, but this process has the library of "
	eventually(n.t, "it is not ready", func() bool {
		status, body := e.get("/-/ready")
		return status == http.StatusServiceUnavailable && strings.HasPrefix(string(body), want+n.version)
	})
}

// TestReplacedDriver replaces the driver and its library while an exporter runs. The exporter must execute itself again
// in the same process and in the same sandbox, and keep its socket. No scrape may fail, and no counter may decrease.
func TestReplacedDriver(t *testing.T) {
	needLandlock(t)
	n := newUpgradable(t)
	// The loader finds the library in this folder.
	e := run(t, append(n.Env(), "LD_LIBRARY_PATH="+n.folder), onNode(n.Node, "--sandbox", unhurried, "--nvml.library=", restartAfter)...)
	before := e.scrapeUntil("containers have energy", hasEnergy)
	checkBalance(t, before)
	stop := scrapeAlways(t, e)

	n.install(newDriver.Version)
	n.upgrade()
	n.awaitNotReady(e)
	const planned = "the process executes itself again at "
	if s := downStage(e); !strings.Contains(s, planned) {
		t.Errorf("the stage driver is down with the reason %q, want %q", s, planned)
	}
	after := e.scrapeUntil("the new driver is read", func(p page) bool {
		return p.Sum("gpuledger_driver_info", map[string]string{"driver_version": newDriver.Version}) == 1 && downStages(p) == 0
	})
	eventually(t, "it is ready", func() bool { status, _ := e.get("/-/ready"); return status == http.StatusOK })
	stop()
	checkBalance(t, after)
	checkGrown(t, before, after)
	e.checkSandbox(2)
	if starts := strings.Count(strings.Join(e.logged(), "\n"), `"msg":"starting"`); starts != 2 {
		t.Errorf("the program started %d times, want 2", starts)
	}
	e.stop() // the process is the same
}

// TestReplacedDriverInContainer replaces the driver while the exporter still sees the old file of the library, as in a
// container. The exporter must log the reason and exit, and the exporter in the next container must continue its
// accounts. The next exporter must not exit, even if it has also loaded the old library.
func TestReplacedDriverInContainer(t *testing.T) {
	needLandlock(t)
	n := newUpgradable(t)
	e := start(t, n.Node, "--sandbox", unhurried, "--nvml.library="+n.library(), restartAfter)
	before := e.scrapeUntil("containers have energy", hasEnergy)
	n.upgrade()
	n.awaitNotReady(e)
	last := e.scrape()
	<-e.exited
	const reason = `"msg":"stopped","err":"driver 999.10.01 is loaded in the kernel`
	if log := strings.Join(e.logged(), "\n"); e.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(log, reason) {
		t.Errorf("exit status %d, want 1 and the reason %q", e.cmd.ProcessState.ExitCode(), reason)
	}

	again := launch(t, n.Env(), onNode(n.Node, "--sandbox", unhurried, "--nvml.library="+n.library(), "--nvml.restart-after=200ms")...)
	again.url = "http://" + <-again.listening
	eventually(t, "the next exporter has also loaded the old library", func() bool {
		_, body := again.get("/metrics")
		p, err := exposition.Parse(strings.NewReader(string(body)))
		return err == nil && p.Sum("gpuledger_stage_failures_total", map[string]string{"stage": "driver"}) > 5
	})
	// The new library replaces the old file, so the exporter now loads the new library.
	n.install(newDriver.Version)
	after := again.scrapeUntil("the new driver is read", func(p page) bool {
		return p.Sum("gpuledger_driver_info", map[string]string{"driver_version": newDriver.Version}) == 1 && hasEnergy(p)
	})
	checkBalance(t, after)
	checkGrown(t, before, last)
	checkGrown(t, last, after)
}

// scrapeAlways scrapes over existing and new connections until the returned function is called. Every scrape must
// succeed, and no energy counter may decrease.
func scrapeAlways(t *testing.T, e *exporter) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var scrapers sync.WaitGroup
	for _, alone := range []bool{false, true} {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: alone}, Timeout: 10 * time.Second}
		scrapers.Go(func() {
			var last page
			for n := 0; ; n++ {
				select {
				case <-done:
					t.Logf("%d scrapes", n)
					return
				case <-time.After(20 * time.Millisecond):
				}
				p, err := scrapeBy(client, e.url)
				if err != nil {
					t.Errorf("scrape %d: %v", n, err)
					return
				}
				if last != nil {
					checkGrown(t, last, p)
				}
				last = p
			}
		})
	}
	return func() {
		close(done)
		scrapers.Wait()
	}
}

func scrapeBy(client *http.Client, url string) (page, error) {
	response, err := client.Get(url + "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return exposition.Parse(strings.NewReader(string(body)))
}

// No energy counter may have decreased or disappeared.
func checkGrown(t *testing.T, before, after page) {
	t.Helper()
	if was, is := before.UUIDs(), after.UUIDs(); !slices.Equal(was, is) {
		t.Errorf("%v have books, before: %v", is, was)
	}
	for name, family := range after {
		if family.GetType() != dto.MetricType_COUNTER || !strings.Contains(name, "_energy_joules_total") {
			continue
		}
		for _, m := range family.GetMetric() {
			if of := exposition.Labels(m); before.Sum(name, of) > exposition.Value(m) {
				t.Errorf("%s%v: %v after %v", name, of, exposition.Value(m), before.Sum(name, of))
			}
		}
	}
}

func downStage(e *exporter) string {
	e.t.Helper()
	for _, s := range e.served().Stages {
		if s.Name == string(stage.Driver) {
			return s.Error
		}
	}
	return ""
}
