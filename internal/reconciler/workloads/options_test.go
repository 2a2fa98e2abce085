package workloads_test

import (
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuledger/gpuledger/internal/reconciler/workloads"
)

func TestOptions(t *testing.T) {
	tests := []struct {
		args []string
		want string // part of the error; empty if there is no error
	}{
		{nil, ""},
		{[]string{"-pod-labels=app, team ,", "-snapshots=log", "-retention=1m"}, ""},
		{[]string{"-pod-labels=Team"}, ""},
		{[]string{"-retention=0s"}, "--retention=0s"},
		{[]string{"-snapshots=all"}, "--snapshots=all"},
		{[]string{"-snapshots=log", "-events=false"}, "requires --events"},
		{[]string{"-pod-labels=a b"}, `"a b" is not a valid name`},
		{[]string{"-pod-annotations=a.b/c,a-b/c"}, "both become annotation_a_b_c"},
		{[]string{"-pod-labels=jobName,job-name"}, "both become label_job_name"},
		{[]string{"-resource-pattern=("}, "missing closing"},
		{[]string{"-resource-pattern="}, "-resource-pattern: must not be empty"},
		{[]string{"-device-class-pattern="}, "-device-class-pattern: must not be empty"},
		{[]string{"-device-class-pattern=^$"}, ""},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var o workloads.Options
			fs := flag.NewFlagSet("", flag.ContinueOnError)
			fs.SetOutput(io.Discard)
			o.Register(fs)
			err := fs.Parse(tt.args)
			if err == nil {
				err = o.Validate()
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error is %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestCatalogueMatchesPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("apps/v1 ReplicaSet", "unknown.example/v1 Gadget")
		p := gpuPod("p", "1", owners[0])
		p.Labels, p.Annotations = map[string]string{"app": "a"}, map[string]string{"note": "n"}
		w := newWorld(t, []string{"-pod-labels=app", "-pod-annotations=note"}, objects(owners, p)...)
		w.lead()
		defer w.stop()
		got := make(map[string][]string)
		for _, line := range w.page() {
			name, _, _ := strings.Cut(line, " ")
			name, _, _ = strings.Cut(name, "{")
			got[name] = labelsOf(line)
		}
		want := make(map[string][]string)
		for _, m := range workloads.Catalogue() {
			want[m.Name] = slices.Sorted(slices.Values(m.Labels))
			switch m.Name {
			case "gpuledger_pod_labels":
				want[m.Name] = slices.Sorted(slices.Values(append(want[m.Name], "label_app")))
			case "gpuledger_pod_annotations":
				want[m.Name] = slices.Sorted(slices.Values(append(want[m.Name], "annotation_note")))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("labels of the metrics (-catalogue +page):\n%s", diff)
		}
	})
}

func labelsOf(line string) []string {
	_, inside, ok := strings.Cut(line, "{")
	if !ok {
		return nil
	}
	var names []string
	for part := range strings.SplitSeq(inside[:strings.LastIndex(inside, "}")], `",`) {
		name, _, _ := strings.Cut(part, "=")
		names = append(names, name)
	}
	return names
}

func TestCatalogueLabels(t *testing.T) {
	used, described := make(map[string]bool), make(map[string]bool)
	for _, m := range workloads.Catalogue() {
		for _, l := range m.Labels {
			used[l] = true
		}
	}
	for _, l := range workloads.Labels() {
		if described[l.Name] {
			t.Errorf("label %s is described twice", l.Name)
		}
		described[l.Name] = true
	}
	if diff := cmp.Diff(used, described); diff != "" {
		t.Errorf("labels (-used +described):\n%s", diff)
	}
}

func TestKeepsOthers(t *testing.T) {
	w := workloads.New(options(t, nil), nil)
	if kept, ok := w.Keep(new(corev1.Pod)); ok || kept != nil {
		t.Errorf("parts of an empty pod are kept: %v", kept)
	}
}
