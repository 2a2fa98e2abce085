//go:build e2e

package archive_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
	"github.com/gpuledger/gpuledger/test/program"
)

const team = "research"

// TestEvents checks that each event of the pods in a real API server reaches a database exactly once. During the test,
// the archive and the database are down for a while, and the reconciler is killed.
func TestEvents(t *testing.T) {
	t.Parallel()
	w := newPods(t)
	db := startPostgres(t)
	url, query := db.create(t, "events")
	archive, r := w.send(t, url, binary(), w.binary)

	w.create("a", "b")
	r.awaitLogged(w.id("a", "phase/Pending"), w.id("b", "phase/Pending"), string(w.job.UID)+"/workload_created")
	r.awaitFiled(query)

	archive.stop()
	w.run("a")
	check(t, w.Client.CoreV1().Pods(team).Delete(t.Context(), "b", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	r.awaitLogged(w.id("a", "phase/Running"), w.id("b", "deleted"))
	archive.start()
	r.awaitFiled(query)

	db.stop()
	w.restart("a")
	r.awaitLogged(w.id("a", "failure/main/137"))
	await(t, time.Minute, func() error {
		if failure := w.id("a", "failure/main/137"); !slices.ContainsFunc(ids(rows(t, archive.folder, "events")), func(id string) bool { return strings.HasPrefix(id, failure) }) {
			return fmt.Errorf("while the database is down, the folder does not contain %s", failure)
		}
		return nil
	})
	db.start(t)
	r.awaitFiled(query)

	archive.stop()
	w.end("a")
	// If a pod ended longer ago than the retention of ended pods, the next reconciler sends the pod's events but does
	// not log them. So this reconciler must log them before it is killed.
	r.awaitLogged(w.id("a", "phase/Succeeded"), w.id("a", "condition/Ready/False"))
	r.kill()
	archive.start()
	r.start()
	r.awaitFiled(query)

	for _, table := range []string{"events", "snapshots"} {
		if got := query.rows(t, "select count(*) from "+table+" group by cluster, id having count(*) > 1"); len(got) > 0 {
			t.Errorf("%s: some ids have several rows: %v", table, got)
		}
	}
	filed := query.rows(t, "select id from events")
	slices.Sort(filed)
	if diff := cmp.Diff(filed, ids(rows(t, archive.folder, "events"))); diff != "" {
		t.Errorf("events (-database +folder):\n%s", diff)
	}
	for _, table := range []string{"events", "snapshots"} {
		want := query.rows(t, "select id from "+table)
		slices.Sort(want)
		for name, text := range map[string]func() string{"HTTP": archive.batches.text, "standard output": archive.printed} {
			await(t, time.Minute, func() error {
				if diff := cmp.Diff(want, ids(decode(t, text())[table])); diff != "" {
					return fmt.Errorf("%s by %s (-database +received):\n%s", table, name, diff)
				}
				return nil
			})
		}
	}
	for text, want := range map[string]string{
		"select detail::json->>'to' from events where event = 'phase' and pod = 'a' order by at":                                             "Pending Running Succeeded",
		"select detail::json->>'exit_code' from events where event = 'failure'":                                                              "137",
		"select distinct workload_kind from events where workload_uid = '" + string(w.job.UID) + "'":                                         "Job",
		"select distinct object::json->'spec'->'containers'->0->'resources'->'limits'->>'nvidia.com/gpu' from snapshots where pod_uid <> ''": "8",
		"select count(*) from snapshots where object like '%hunter2%'":                                                                       "0",
	} {
		if got := strings.Join(query.rows(t, text), " "); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// ids removes duplicates, because an event may be sent several times.
func ids(rows []map[string]string) (all []string) {
	for _, row := range rows {
		all = append(all, row["id"])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

type receiver struct {
	t                            *testing.T
	group                        *program.Group
	binary, address, url, tokens string
	folder, target               string
	batches                      *rowReceiver // batches that the archive sent to target
	running                      *program.Program
	logs                         []string
}

func (r *receiver) start() {
	r.t.Helper()
	var err error
	r.running, err = r.group.Start("archive", r.binary, "run", "--store.url=http://127.0.0.1:1", "--cluster=east", "--web.listen-address="+r.address,
		"--postgres.url="+r.url, "--folder="+r.folder, "--folder.format=csv,parquet", "--http.url="+r.target, "--stdout=json", "--events.receive", "--events.token-file="+r.tokens)
	check(r.t, err)
	if !slices.Contains(r.logs, r.running.Log) {
		r.logs = append(r.logs, r.running.Log)
	}
}

// printed reads the rows from the log files, which contain both standard output and standard error.
func (r *receiver) printed() string {
	var rows strings.Builder
	for _, name := range r.logs {
		for line := range strings.Lines(text(r.t, name)) {
			if strings.HasPrefix(line, `{"table":`) {
				rows.WriteString(line)
			}
		}
	}
	return rows.String()
}

func (r *receiver) stop() { r.running.Stop() }

type reconciler struct {
	t      *testing.T
	group  *program.Group
	binary string
	args   []string
	runs   []*program.Program
}

func (r *reconciler) start() {
	r.t.Helper()
	p, err := r.group.Start("reconciler", r.binary, append([]string{
		"--log.format=json", "--web.listen-address=127.0.0.1:0", "--enable=workloads", "--leader-election=false",
		"--events.cluster=east", "--snapshots=send", "--retention=1s",
	}, r.args...)...)
	check(r.t, err)
	r.runs = append(r.runs, p)
}

func (r *reconciler) kill() { r.runs[len(r.runs)-1].Kill() }

func (r *reconciler) logged() (all string) {
	for _, p := range r.runs {
		all += text(r.t, p.Log)
	}
	return all
}

func (r *reconciler) awaitLogged(texts ...string) {
	r.t.Helper()
	await(r.t, time.Minute, func() error {
		log := r.logged()
		for _, text := range texts {
			if !strings.Contains(log, text) {
				return errors.New("the log does not contain " + text)
			}
		}
		return nil
	})
}

func (r *reconciler) awaitFiled(db query) {
	r.t.Helper()
	await(r.t, time.Minute, func() error {
		var want []string
		for line := range strings.Lines(r.logged()) {
			var e struct{ Event, ID string }
			if err := json.Unmarshal([]byte(line), &e); err == nil && e.Event != "" {
				want = append(want, e.ID)
			}
		}
		got, err := db(r.t.Context(), "select id from events")
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
			err = errors.Join(err, errors.New(diff))
		}
		return err
	})
}

func await(t *testing.T, within time.Duration, missing func() error) {
	t.Helper()
	for deadline := time.Now().Add(within); ; <-time.After(100 * time.Millisecond) {
		err := missing()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", within, err)
		}
	}
}

// pods manages the pods of a Job. The cluster has no kubelet, so the test sets the status of the pods.
type pods struct {
	*cluster.Cluster
	t                  *testing.T
	binary, kubeconfig string
	job                *batchv1.Job
	uids               map[string]string
	began              time.Time
}

func newPods(t *testing.T) *pods {
	t.Helper()
	c, err := cluster.Start(t.Context())
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			c.Logs(t.Output())
		}
		c.Stop()
	})
	dir := t.TempDir()
	w := &pods{
		Cluster: c, t: t, binary: program.BuiltFor(t, "gpuledger-reconciler"), kubeconfig: filepath.Join(dir, "kubeconfig"),
		uids: make(map[string]string),
	}
	check(t, cluster.WriteKubeconfig(w.kubeconfig, c.Admin))
	_, err = c.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}, metav1.CreateOptions{})
	check(t, err)
	_, err = c.Client.CoreV1().ServiceAccounts(team).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	check(t, err)
	w.job, err = c.Client.BatchV1().Jobs(team).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "train"},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: trains()}},
	}, metav1.CreateOptions{})
	check(t, err)
	return w
}

func trains() corev1.PodSpec {
	return corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure, NodeName: "gpu-node-1", Containers: []corev1.Container{{
		Name: "main", Image: "train", Env: []corev1.EnvVar{{Name: "TOKEN", Value: "hunter2"}},
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}},
	}}}
}

// send starts an archive that writes to a database, and a reconciler that sends events to the archive. archive is the
// path of the archive's program. sender is the path of the reconciler's program.
func (w *pods) send(t *testing.T, database, archive, sender string) (*receiver, *reconciler) {
	t.Helper()
	dir, group, batches := t.TempDir(), program.OpenFor(t), &rowReceiver{batches: make(map[string]string)}
	token, tokens := filepath.Join(dir, "token"), filepath.Join(dir, "tokens")
	check(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	check(t, os.WriteFile(tokens, []byte("east secret\n"), 0o600))
	target := httptest.NewServer(batches)
	t.Cleanup(target.Close)
	to := &receiver{t: t, group: group, binary: archive, address: program.AddressFor(t), url: database, tokens: tokens, folder: t.TempDir(), target: target.URL, batches: batches}
	to.start()
	r := &reconciler{t: t, group: group, binary: sender, args: []string{
		"--kubeconfig=" + w.kubeconfig, "--events.url=http://" + to.address, "--events.token-file=" + token,
	}}
	r.start()
	return to, r
}

// create creates pods. The times in their status are relative to the creation of the last pod.
func (w *pods) create(names ...string) {
	w.t.Helper()
	for _, name := range names {
		owners := []metav1.OwnerReference{*metav1.NewControllerRef(w.job, batchv1.SchemeGroupVersion.WithKind("Job"))}
		p, err := w.Client.CoreV1().Pods(team).Create(w.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}, Spec: trains()}, metav1.CreateOptions{})
		check(w.t, err)
		w.uids[name], w.began = string(p.UID), p.CreationTimestamp.Time
	}
}

func (w *pods) id(pod, rest string) string { return w.uids[pod] + "/" + rest }

func (w *pods) at(second int) metav1.Time {
	return metav1.NewTime(w.began.Add(time.Duration(second) * time.Second))
}

func (w *pods) status(name string, change func(s *corev1.PodStatus)) {
	w.t.Helper()
	p, err := w.Client.CoreV1().Pods(team).Get(w.t.Context(), name, metav1.GetOptions{})
	check(w.t, err)
	change(&p.Status)
	_, err = w.Client.CoreV1().Pods(team).UpdateStatus(w.t.Context(), p, metav1.UpdateOptions{})
	check(w.t, err)
}

func (w *pods) run(name string) {
	w.status(name, func(s *corev1.PodStatus) {
		s.Phase = corev1.PodRunning
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: w.at(2)}}
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: w.at(1)}}}}
	})
}

func (w *pods) restart(name string) {
	w.status(name, func(s *corev1.PodStatus) {
		s.ContainerStatuses[0] = corev1.ContainerStatus{
			Name: "main", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: w.at(4)}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", StartedAt: w.at(1), FinishedAt: w.at(3)}},
		}
	})
}

func (w *pods) end(name string) {
	w.status(name, func(s *corev1.PodStatus) {
		s.Phase = corev1.PodSucceeded
		s.Conditions[0].Status, s.Conditions[0].Reason, s.Conditions[0].LastTransitionTime = corev1.ConditionFalse, "PodCompleted", w.at(5)
		s.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: w.at(4), FinishedAt: w.at(5)}}
	})
}
