//go:build e2e

package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/gpuledger/gpuledger/internal/archive"
)

func archiveIn(t *testing.T, file string) (pod corev1.PodSpec, settings corev1.ConfigMap) {
	t.Helper()
	for _, document := range files(t)[file] {
		w := &workload{}
		check(t, yaml.Unmarshal(document, w))
		switch {
		case w.Kind == "CronJob":
			pod = w.Spec.JobTemplate.Spec.Template.Spec
		case w.Kind == "Deployment" && w.Name == "gpuledger-archive":
			pod = w.Spec.Template.Spec
		case w.Kind == "ConfigMap" && strings.HasPrefix(w.Name, "gpuledger-archive-"):
			check(t, yaml.Unmarshal(document, &settings))
		}
	}
	if len(pod.Containers) != 1 {
		t.Fatalf("%s has no archive with one container", file)
	}
	return pod, settings
}

// TestArchive checks that the arguments of the archive's container use each key of the archive's ConfigMap. With the
// values in the ConfigMap, the arguments must be valid.
func TestArchive(t *testing.T) {
	for _, file := range []string{"archive-deployment.yaml", "archive-cronjob.yaml", "example.yaml"} {
		pod, settings := archiveIn(t, file)
		c := pod.Containers[0]
		if got := c.EnvFrom[0].ConfigMapRef.Name; got != settings.Name {
			t.Errorf("%s: the pod uses the ConfigMap %s, want %s", file, got, settings.Name)
		}
		used := make(map[string]string)
		args := slices.Clone(c.Args)
		for i := range args {
			args[i] = regexp.MustCompile(`\$\((\w+)\)`).ReplaceAllStringFunc(args[i], func(name string) string {
				name = strings.Trim(name, "$()")
				used[name] = settings.Data[name]
				return settings.Data[name]
			})
		}
		if diff := gocmp.Diff(settings.Data, used); diff != "" {
			t.Errorf("%s: settings (-ConfigMap +arguments):\n%s", file, diff)
		}
		got, err := archive.Parse(args)
		if err != nil || got.Run != (file != "archive-cronjob.yaml") || got.Store.URL != settings.Data["STORE_URL"] {
			t.Errorf("%s: %q: store %s, run %v, error %v", file, args, got.Store.URL, got.Run, err)
		}
	}
}

// TestArchiveStrategy checks that an upgrade stops the old version of the archive before the new version changes
// the tables.
func TestArchiveStrategy(t *testing.T) {
	for _, document := range files(t)["archive-deployment.yaml"] {
		var d appsv1.Deployment
		check(t, yaml.Unmarshal(document, &d))
		if d.Kind == "Deployment" && d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
			t.Errorf("strategy %q", d.Spec.Strategy.Type)
		}
	}
}

// TestCronJob checks that the CronJob and the Deployment have the same pod, except for the command
// and the metrics.
func TestCronJob(t *testing.T) {
	want, _ := archiveIn(t, "archive-deployment.yaml")
	got, _ := archiveIn(t, "archive-cronjob.yaml")
	c := &want.Containers[0]
	c.Args[0], c.Ports, c.LivenessProbe, c.ReadinessProbe = "once", nil, nil, nil
	want.RestartPolicy = corev1.RestartPolicyNever
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("pod (-Deployment +CronJob):\n%s", diff)
	}
}
