//go:build e2e

package reconciler_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/program"
)

type replica struct {
	t   testing.TB
	cmd *exec.Cmd
	url string

	mu  sync.Mutex
	log []string

	exited chan struct{}
	err    error // result of Wait, valid after exited is closed
}

// lead waits until the replica is the leader.
func lead(t testing.TB, flags ...string) *replica {
	t.Helper()
	r := start(t, must(world.ServiceAccount(t.Context(), namespace, account))(t), flags...)
	r.await("leading")
	return r
}

// start uses intervals of a second instead of minutes, unless the flags override them. After the test, it resets the
// change budget.
func start(t testing.TB, access *rest.Config, flags ...string) *replica {
	t.Helper()
	t.Cleanup(func() { annotateLease(t, "null") })
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	check(t, cluster.WriteKubeconfig(kubeconfig, access))
	r := execute(t, append([]string{
		"--kubeconfig=" + kubeconfig, "--web.listen-address=127.0.0.1:0",
		"--leader-election.namespace=" + namespace, "--leader-election.identity=" + t.Name(), "--leader-election.duration=2s",
		"--resync=1s", "--confirm=100ms", "--exporter.daemonsets=" + exporterNamespace + "/" + daemonSetName,
	}, flags...)...)
	r.await("Listening on")
	return r
}

// The program gets an empty environment.
func execute(t testing.TB, args ...string) *replica {
	t.Helper()
	r := &replica{t: t, exited: make(chan struct{})}
	if args[0] == "cleanup" {
		args = append([]string{"cleanup", "--log.format=json"}, args[1:]...)
	} else {
		args = append([]string{"--log.format=json"}, args...)
	}
	r.cmd = exec.Command(program.BuiltFor(t, "gpuledger-reconciler"), args...)
	r.cmd.Env = []string{}
	stderr := must(r.cmd.StderrPipe())(t)
	check(t, r.cmd.Start())
	go r.follow(stderr)
	t.Cleanup(func() {
		_ = r.cmd.Process.Signal(syscall.SIGTERM) // lets the replica release the Lease; the replica may have ended already
		r.ended()
		if t.Failed() {
			t.Logf("log of gpuledger-reconciler %v:\n%s", args, strings.Join(r.logged(), "\n"))
		}
	})
	return r
}

// follow reads the log until the process closes it. It sets the address when it is logged, and then waits for the
// process.
func (r *replica) follow(stderr io.Reader) {
	lines := bufio.NewScanner(stderr)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		var line struct{ Msg, Address string }
		_ = json.Unmarshal(lines.Bytes(), &line) // lines of other programs are ignored
		r.mu.Lock()
		r.log = append(r.log, lines.Text())
		if line.Msg == "Listening on" {
			r.url = "http://" + line.Address
		}
		r.mu.Unlock()
	}
	r.err = r.cmd.Wait()
	close(r.exited)
}

func (r *replica) logged() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}

func (r *replica) logLines(text string) []string {
	return slices.DeleteFunc(r.logged(), func(line string) bool { return !strings.Contains(line, text) })
}

func (r *replica) await(message string) {
	r.t.Helper()
	eventually(r.t, "the log contains "+message, func() bool {
		select {
		case <-r.exited:
			r.t.Fatalf("it ended: %v", r.err)
		default:
		}
		return len(r.logLines(`"msg":"`+message+`"`)) > 0
	})
}

// stop returns how long the replica took to end after SIGTERM.
func (r *replica) stop() time.Duration {
	r.t.Helper()
	begun := time.Now()
	check(r.t, r.cmd.Process.Signal(syscall.SIGTERM))
	r.ended()
	return time.Since(begun)
}

func (r *replica) ended() {
	r.t.Helper()
	select {
	case <-r.exited:
	case <-time.After(10 * time.Second):
		_ = r.cmd.Process.Kill()
		<-r.exited
		r.t.Error("the replica did not end after SIGTERM")
	}
}

func (r *replica) scrape() exposition.Page {
	r.t.Helper()
	return must(exposition.Scrape(r.t.Context(), r.url+"/metrics"))(r.t)
}

func (r *replica) value(metric string, labels map[string]string) float64 {
	r.t.Helper()
	sum := 0.0
	for _, m := range r.scrape().Matches(metric, labels) {
		sum += exposition.Value(m)
	}
	return sum
}
