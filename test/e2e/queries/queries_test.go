//go:build e2e

package queries_test

import (
	"fmt"
	"slices"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/metric"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/promdoc"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

const part = "Workloads and pods"

// TestQueries checks every query in the section. Every expected answer must have a query.
func TestQueries(t *testing.T) {
	l := newLife(t, watch(t))
	url := l.record().serve(t)
	answers := l.answers()
	doc, err := promdoc.Read("../../../docs/queries.md")
	check(t, err)
	for _, q := range doc.Part(part) {
		want, ok := answers[q.Title]
		if !ok {
			t.Errorf("no expected answer to %q", q.Title)
			continue
		}
		delete(answers, q.Title)
		t.Run(q.Title, func(t *testing.T) {
			text, err := q.Fill(l.variables(q.Title))
			check(t, err)
			got, err := prometheus.Query(t.Context(), url, text, l.at(lastMoment).Time)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			want.Off = max(want.Off, 1e-9)
			for _, wrong := range want.Differences(got) {
				t.Error(wrong)
			}
		})
	}
	for title := range answers {
		t.Errorf("the part %q of docs/queries.md lacks the question %q", part, title)
	}
	t.Run("events", l.checkEvents)
}

// In this history, each page is valid for some minutes.
func (l *life) record() *history {
	h := &history{families: make(map[string]*dto.MetricFamily), began: l.began}
	stand := func(pages []exposition.Page, from, to int) {
		for _, p := range pages {
			h.stand(p, from, to)
		}
	}
	l.wait()
	stand(l.pages("kube_pod_status_unschedulable", map[string]string{"pod": "waits"}, 1), 0, atStart-1)
	for name := range l.pods {
		if name != "waits" {
			l.run(name)
		}
	}
	stand(l.running(3), atStart, atKill-1)
	l.kill("chat-6f-x")
	stand(l.pages("kube_pod_container_status_restarts_total", map[string]string{"pod": "chat-6f-x"}, 1), atKill, atEnd-1)
	l.end("nightly-1-a")
	l.end("nightly-1-b")
	l.endJob()
	l.pages("kube_pod_status_phase", map[string]string{"pod": "nightly-1-a", "phase": "Succeeded"}, 1)
	l.pages("kube_pod_status_phase", map[string]string{"pod": "nightly-1-b", "phase": "Succeeded"}, 1)
	stand(l.pages("kube_job_status_succeeded", map[string]string{"job_name": "nightly-1"}, 2), atEnd, lastMoment)
	l.addExporter(h)
	return h
}

func (l *life) running(want int) (pages []exposition.Page) {
	eventually(l.t, "the pods are shown running", func() error {
		pages = l.pages("kube_pod_status_phase", map[string]string{"phase": "Running"}, 1)
		running := pages[0].Matches("kube_pod_status_phase", map[string]string{"phase": "Running"})
		running = slices.DeleteFunc(running, func(m *dto.Metric) bool { return exposition.Value(m) != 1 })
		if len(running) != want {
			return fmt.Errorf("%d are", len(running))
		}
		return nil
	})
	return pages
}

// addExporter adds the series of an exporter, because no exporter runs.
func (l *life) addExporter(h *history) {
	for name, pod := range l.pods {
		gpus := map[string]int{"chat-6f-x": 2, "nightly-1-a": 8, "nightly-1-b": 8}[name]
		last := lastMoment
		if gpus == 8 {
			last = atEnd - 1
		}
		for i := range gpus {
			labels := map[string]string{
				"UUID": fmt.Sprintf("GPU-%s-%d", name, i), "model": "H200", "namespace": team, "pod": name, "pod_uid": string(pod.UID),
				"container": "main", "resource": "nvidia.com/gpu", "sharing": "exclusive",
			}
			for minute := atStart; minute <= last; minute++ {
				h.device(l.t, "gpuledger_container_gpu_info", labels, minute)
			}
		}
	}
}

// device adds a sample of an info metric from the exporter's catalogue.
func (h *history) device(t *testing.T, name string, labels map[string]string, minute int) {
	t.Helper()
	all := collector.Catalogue()
	i := slices.IndexFunc(all, func(m metric.Metric) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("%s is no metric of the exporter", name)
	}
	m := &dto.Metric{Gauge: &dto.Gauge{Value: new(1.0)}}
	for _, l := range all[i].Labels {
		m.Label = append(m.Label, &dto.LabelPair{Name: new(l), Value: new(labels[l])})
	}
	h.add(&dto.MetricFamily{Name: &name, Type: all[i].Type.ToDTO()}, m, minute)
}

func (l *life) variables(title string) map[string]string {
	workload := l.cron
	if title == "When was it first seen" || title == "When was it last seen" {
		workload = l.deployment
	}
	return map[string]string{
		"workload_uid": string(workload.GetUID()), "owner_uid": string(l.replicas.GetUID()), "moment": fmt.Sprint(l.at(100).Unix()),
	}
}

func (l *life) answers() map[string]prometheus.Answer {
	begun := float64(l.at(0).Unix())
	minute := func(m float64) float64 { return begun + 60*m }
	byWorkload, byPod := []string{"workload_kind", "workload_name"}, []string{"pod"}
	const cron, chat, bare = "CronJob nightly", "Deployment chat", "Pod waits"
	return map[string]prometheus.Answer{
		"Which workloads have GPU pods":          {By: byWorkload, Want: map[string]float64{cron: 1, chat: 1, bare: 1}},
		"What belongs to a workload":             {By: []string{"kind", "name"}, Want: map[string]float64{"Job nightly-1": 1}},
		"In which phases are its pods":           {By: append(byWorkload, "phase"), Want: map[string]float64{cron + " Succeeded": 2, chat + " Running": 1, bare + " Pending": 1}},
		"Which workloads have only pending pods": {By: byWorkload, Want: map[string]float64{bare: 1}},
		"When was it first seen":                 {By: []string{"kind", "name"}, Want: map[string]float64{"Deployment chat": begun}},
		"When was it last seen":                  {By: []string{"kind", "name"}, Want: map[string]float64{"Deployment chat": minute(lastMoment)}},
		"When did a Job end":                     {By: []string{"job_name", "uid", "parent_uid"}, Want: map[string]float64{fmt.Sprint("nightly-1 ", l.job.GetUID(), " ", l.cron.GetUID()): minute(atEnd)}},
		"What labels do pods have":               {By: []string{"label_team"}, Want: map[string]float64{"serving": 4}},
		"Which pods, where, of which workload, and how many GPUs": {By: []string{"pod", "node", "workload_kind", "workload_name"}, Want: map[string]float64{
			"nightly-1-a gpu-node-1 " + cron: 8, "nightly-1-b gpu-node-1 " + cron: 8, "chat-6f-x gpu-node-2 " + chat: 2, "waits  " + bare: 4,
		}},
		"How many GPUs does each workload use now":                     {By: byWorkload, Want: map[string]float64{chat: 2}},
		"How many GPUs do pending pods request":                        {By: []string{"namespace", "resource"}, Want: map[string]float64{team + " nvidia.com/gpu": 4}},
		"How long has a GPU pod been pending":                          {By: byPod, Want: map[string]float64{"waits": lastMoment * 60}, Off: 120},
		"Which GPU pods are unschedulable":                             {By: append(byPod, byWorkload...), Want: map[string]float64{"waits " + bare: 1}},
		"Which image does a GPU pod run":                               {By: []string{"pod", "image"}, Want: map[string]float64{"nightly-1-a example.com/llm:v1": 1, "nightly-1-b example.com/llm:v1": 1, "chat-6f-x example.com/llm:v1": 1}},
		"Which address does a GPU pod have":                            {By: []string{"pod", "pod_ip"}, Want: map[string]float64{"nightly-1-a 10.0.0.1": 1, "nightly-1-b 10.0.0.1": 1, "chat-6f-x 10.0.0.1": 1}},
		"Which workload is on a GPU":                                   {By: append([]string{"UUID"}, byWorkload...), Want: map[string]float64{"GPU-chat-6f-x-0 " + chat: 1, "GPU-chat-6f-x-1 " + chat: 1}},
		"GPU hours requested by running pods, by workload":             {By: byWorkload, Want: map[string]float64{cron: 16 * 2, chat: 2 * 130.0 / 60, bare: 0}},
		"When was a GPU pod scheduled":                                 {By: byPod, Want: map[string]float64{"nightly-1-a": minute(atStart), "nightly-1-b": minute(atStart), "chat-6f-x": minute(atStart)}},
		"How long did it take to be ready":                             {By: byPod, Want: map[string]float64{"nightly-1-a": (atStart + 1) * 60, "nightly-1-b": (atStart + 1) * 60, "chat-6f-x": (atStart + 1) * 60}, Off: 120},
		"When did it finish":                                           {By: byPod, Want: map[string]float64{"nightly-1-a": minute(atEnd), "nightly-1-b": minute(atEnd)}},
		"How often were containers restarted, by workload":             {By: byWorkload, Want: map[string]float64{cron: 0, chat: 1}},
		"Why did a container end the last time":                        {By: []string{"pod", "container", "reason"}, Want: map[string]float64{"chat-6f-x main OOMKilled": 1}},
		"What was its exit code":                                       {By: []string{"pod", "container"}, Want: map[string]float64{"chat-6f-x main": 137}},
		"How often did it become ready, or not ready":                  {By: byPod, Want: map[string]float64{"nightly-1-a": 1, "nightly-1-b": 1, "chat-6f-x": 1}},
		"Which GPU pods were active in the 20 minutes before a moment": {By: byPod, Want: map[string]float64{"nightly-1-a": 1, "nightly-1-b": 1, "chat-6f-x": 1}},
		"When was a GPU pod last seen running":                         {By: byPod, Want: map[string]float64{"nightly-1-a": minute(atEnd - 1), "nightly-1-b": minute(atEnd - 1), "chat-6f-x": minute(lastMoment)}},
		"All pods of a root workload, past ones included":              {By: byPod, Want: map[string]float64{"nightly-1-a": 1, "nightly-1-b": 1}},
		"All pods of a workload between the pods and the root":         {By: byPod, Want: map[string]float64{"chat-6f-x": 1}},
		"Which workload roots are unknown":                             {Want: map[string]float64{}},
	}
}
