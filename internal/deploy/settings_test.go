//go:build e2e

package deploy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

func withTests(t *testing.T, args ...string) map[string]any {
	t.Helper()
	text, err := helm(t, append([]string{"template", "gpuledger", chart, "--namespace=gpuledger", "--kube-version=1.37.0"}, args...)...)
	check(t, err)
	return objects(t, text)
}

// podsOf returns the pods of all workloads and of helm test. The keys are the kinds and names of the objects that
// define the pods.
func podsOf(t *testing.T, all map[string]any) map[string]corev1.PodTemplateSpec {
	t.Helper()
	pods := make(map[string]corev1.PodTemplateSpec)
	for _, object := range all {
		kind := fmt.Sprint(at(object, "kind"))
		template := at(object, "spec", "template")
		if kind == "Pod" {
			template = object
		}
		if template == nil || !slices.Contains([]string{"DaemonSet", "Deployment", "Pod"}, kind) {
			continue
		}
		var pod corev1.PodTemplateSpec
		into(t, template, &pod)
		pods[kind+" "+fmt.Sprint(at(object, "metadata", "name"))] = pod
	}
	return pods
}

func into(t *testing.T, object, typed any) {
	t.Helper()
	text, err := json.Marshal(object)
	check(t, err)
	check(t, json.Unmarshal(text, typed))
}

var everyPod = []string{
	valuesOf("everything"), "--set=dashboards.enabled=false,prometheusRule.enabled=false,web.existingSecret=",
	"--set=image.pullPolicy=Never",
}

// TestChartRegistry checks that a single value moves every image to another registry. As in all image references, the
// first part is a registry if it contains a dot or a port, or is localhost.
func TestChartRegistry(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	tests := []struct {
		set  string
		want []string // images of the archive, the exporter and the reconciler
	}{
		{"global.imageRegistry=", []string{
			"ghcr.io/gpuledger/gpuledger-archive:v0.1.0", "ghcr.io/gpuledger/gpuledger:v0.1.0", "ghcr.io/gpuledger/gpuledger-reconciler:v0.1.0",
		}},
		{"global.imageRegistry=registry.example.com:5000/mirror,reconciler.image.digest=" + digest[1:], []string{
			"registry.example.com:5000/mirror/gpuledger/gpuledger-archive:v0.1.0", "registry.example.com:5000/mirror/gpuledger/gpuledger:v0.1.0",
			"registry.example.com:5000/mirror/gpuledger/gpuledger-reconciler" + digest,
		}},
		{"global.imageRegistry=r.example/,image.repository=gpuledger,reconciler.image.repository=localhost/team/a,archive.image.repository=host:5000/b", []string{
			"r.example/b:v0.1.0", "r.example/gpuledger:v0.1.0", "r.example/team/a:v0.1.0",
		}},
		{"global.imageRegistry=r.example,image.repository=team/gpuledger,image.tag=dev", []string{
			"r.example/gpuledger/gpuledger-archive:v0.1.0", "r.example/team/gpuledger:dev", "r.example/gpuledger/gpuledger-reconciler:v0.1.0",
		}},
	}
	for _, tt := range tests {
		pods := podsOf(t, withTests(t, append(slices.Clone(everyPod), "--set="+tt.set)...))
		got := make(map[string]string)
		for name, pod := range pods {
			got[name] = pod.Spec.Containers[0].Image
			if policy := pod.Spec.Containers[0].ImagePullPolicy; policy != corev1.PullNever {
				t.Errorf("%s: %s has the pull policy %s", tt.set, name, policy)
			}
		}
		want := map[string]string{
			"Deployment gpuledger-archive": tt.want[0], "DaemonSet gpuledger": tt.want[1], "DaemonSet gpuledger-prepull": tt.want[1],
			"Pod gpuledger-test": tt.want[1], "Deployment gpuledger-reconciler": tt.want[2],
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s: images (-want +got):\n%s", tt.set, diff)
		}
	}
	parameters := withTests(t, valuesOf("operator"), "--set=global.imageRegistry=registry.example.com,image.pullPolicy=Never")["ConfigMapgpuledgergpuledger-sidecar"]
	if got := at(parameters, "data", "pullPolicy"); got != "Never" {
		t.Errorf("the policy's pull policy is %v", got)
	}
	if got := at(parameters, "data", "image"); got != "registry.example.com/gpuledger/gpuledger:v0.1.0" {
		t.Errorf("the policy adds the image %v", got)
	}
}

// TestChartPullSecrets checks that all pods use the pull secrets from the chart's values and from the global values.
// Charts use two formats for pull secrets, and the chart must accept both formats.
func TestChartPullSecrets(t *testing.T) {
	set := []string{"--set-json=imagePullSecrets=" + `[{"name": "ours"}]`, "--set-json=global.imagePullSecrets=" + `["theirs", {"name": "ours"}, {"name": "more"}]`}
	want := []corev1.LocalObjectReference{{Name: "ours"}, {Name: "theirs"}, {Name: "more"}}
	for name, pod := range podsOf(t, withTests(t, append(set, everyPod...)...)) {
		if diff := gocmp.Diff(want, pod.Spec.ImagePullSecrets); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	parameters := withTests(t, append(set, valuesOf("operator"))...)["ConfigMapgpuledgergpuledger-sidecar"]
	if got := at(parameters, "data", "pullSecrets"); got != "ours, theirs, more" {
		t.Errorf("the policy adds the secrets %v", got)
	}
}

func TestChartTypes(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	tests := []struct{ key, value, want string }{
		{"imagePullSecrets", `["foo"]`, "/imagePullSecrets/0"},
		{"imagePullSecrets", `[{"names": "foo"}]`, "names"},
		{"global.imagePullSecrets", `[1]`, "/global/imagePullSecrets/0"},
		{"global.imageRegistry", `"https://registry.example.com"`, "/global/imageRegistry"},
		{"global.other", `"for another chart"`, ""},
		{"extraArgs", `[1]`, "/extraArgs/0"},
		{"extraArgs", `"--log.level=debug"`, "/extraArgs"},
		{"extraEnv", `[{"name": "A", "value": 1}]`, "/extraEnv/0/value"},
		{"extraEnv", `[{"value": "1"}]`, "'name'"},
		{"extraEnv", `[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]`, ""},
		{"extraEnv", `[{"name": "A", "valueFrom": {"secretKeyReff": {"name": "a", "key": "b"}}}]`, "secretKeyReff"},
		{"image.digest", `"abc"`, "/image/digest"},
		{"image.digest", `"` + digest + `"`, ""},
		{"image.tag", `1.1`, "/image/tag"},
		{"image.tag", `"a tag"`, "/image/tag"},
		{"image.repository", `"ghcr.io/gpuledger/gpuledger:v1"`, "/image/repository"},
		{"image.repository", `"localhost:5000/gpuledger"`, ""},
		{"kubeletPath", `"var/lib/kubelet"`, "/kubeletPath"},
		{"extraHostVolumes", `[{"name": "a", "hostPath": "opt"}]`, "/extraHostVolumes/0/hostPath"},
		{"extraHostVolumes", `[{"name": "a", "hostPath": {"path": "/opt"}}]`, "/extraHostVolumes/0/hostPath"},
		{"extraHostVolumes", `[{"name": "a", "hostPath": "/opt"}]`, ""},
		{"extraVolumeMounts", `[{"name": "a", "mountPath": "opt"}]`, "/extraVolumeMounts/0/mountPath"},
		{"extraVolumeMounts", `[{"name": "a", "mountPath": "/opt", "readonly": true}]`, "readonly"},
		{"dcgm.fields", `"fields.csv"`, "/dcgm/fields"},
		{"dcgm.address", `"nvidia-dcgm.gpu-operator.svc"`, "/dcgm/address"},
		{"archive.store.httpConfigFile", `"store.yaml"`, "/archive/store/httpConfigFile"},
		{"resources", `{"limits": {"memory": "128MB"}}`, "/resources/limits/memory"},
		{"resources", `{"limits": {"memory": "-1"}}`, "/resources/limits/memory"},
		{"resources", `{"limit": {"memory": "128Mi"}}`, "limit"},
		{"resources", `{"limits": {"memory": "128Mi", "cpu": 0.5}, "requests": {"cpu": "10m"}}`, ""},
		{"archive.resources", `{"requests": {"memory": "much"}}`, "/archive/resources/requests/memory"},
		{"tolerations", `["nvidia.com/gpu"]`, "/tolerations/0"},
		{"tolerations", `[{"key": "a", "operator": "Exist"}]`, "/tolerations/0/operator"},
		{"reconciler.tolerations", `[{"key": "a", "effect": "noSchedule"}]`, "/reconciler/tolerations/0/effect"},
		{"tolerations", `[{"key": "a", "values": "b"}]`, "values"},
		{"tolerations", `[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]`, ""},
		{"affinity", `{"nodeAffinity": {"required": []}}`, "required"},
		{"affinity", `{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Has"}]}]}}}`, "/operator"},
		{"archive.topologySpreadConstraints", `[{"topologyKey": "zone"}]`, "'maxSkew'"},
		{"nodeSelector", `{"gpu": true}`, "/nodeSelector/gpu"},
		{"podLabels", `{"a": 1}`, "/podLabels/a"},
		{"updateStrategy", `{"type": "Rolling"}`, "/updateStrategy/type"},
		{"updateStrategy", `{"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}`, ""},
		{"securityContext.seLinuxOptions", `{"typ": "spc_t"}`, "typ"},
		{"securityContext.runAsUser", `1`, "runAsUser"},
		{"namespaceOverride", `"a namespace"`, "/namespaceOverride"},
		{"podMonitor.interval", `"30"`, "/podMonitor/interval"},
		{"podMonitor.relabelings", `[{"source_labels": ["a"]}]`, "source_labels"},
		{"podMonitor.tlsConfig", `{"ca": {"secret": {"name": "a", "key": "b"}}, "serverName": "c"}`, ""},
		{"podMonitor.tlsConfig", `{"insecure_skip_verify": true}`, "insecure_skip_verify"},
		{"prometheusRule.disabled", `["GPULedgerExporterMissing"]`, "/prometheusRule/disabled"},
		{"prometheusRule.disabled", `{"GPULedgerExporterMissing": "yes"}`, "/prometheusRule/disabled/GPULedgerExporterMissing"},
		{"reconciler.replicas", `-1`, "/reconciler/replicas"},
		{"service.port", `70000`, "/service/port"},
		{"nameOverride", `"a"`, "nameOverride cannot be set: a cluster has one gpuledger"},
		{"fullnameOverride", `"a"`, "fullnameOverride cannot be set: a cluster has one gpuledger"},
	}
	for _, tt := range tests {
		t.Run(tt.key+"="+tt.value, func(t *testing.T) {
			t.Parallel()
			_, err := template(t, "--set-json="+tt.key+"="+tt.value)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestChartArchivePod(t *testing.T) {
	base := []string{"--set=archive.enabled=true"}
	all := withTests(t, append(base, "--set-json=archive="+`{
		"nodeSelector": {"disk": "ssd"}, "priorityClassName": "low", "affinity": {"podAntiAffinity": {}},
		"tolerations": [{"key": "a", "operator": "Exists"}],
		"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
		"podLabels": {"azure.workload.identity/use": "true", "app.kubernetes.io/name": "another"}, "podAnnotations": {"a": "b"},
		"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/archive"}}}`)...)
	pod := podsOf(t, all)["Deployment gpuledger-archive"]
	want := corev1.PodSpec{
		NodeSelector: map[string]string{"disk": "ssd", "kubernetes.io/os": "linux"}, PriorityClassName: "low",
		Affinity:                  &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}},
		Tolerations:               []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}},
		ServiceAccountName:        "gpuledger-archive",
	}
	others := cmpopts.IgnoreFields(corev1.PodSpec{}, "Containers", "Volumes", "SecurityContext", "EnableServiceLinks", "AutomountServiceAccountToken")
	if diff := gocmp.Diff(want, pod.Spec, others); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	if pod.Annotations["a"] != "b" || pod.Labels["azure.workload.identity/use"] != "true" || pod.Labels["app.kubernetes.io/name"] != "gpuledger" {
		t.Errorf("labels %v, annotations %v", pod.Labels, pod.Annotations)
	}
	annotations := at(all["ServiceAccountgpuledgergpuledger-archive"], "metadata", "annotations")
	if diff := gocmp.Diff(map[string]any{"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/archive"}, annotations); diff != "" {
		t.Errorf("account (-want +got):\n%s", diff)
	}
	for set, want := range map[string]string{"create=false,archive.serviceAccount.name=mine": "mine", "create=false": "default", "name=mine": "mine"} {
		all := withTests(t, append(base, "--set=archive.serviceAccount."+set)...)
		created := all["ServiceAccountgpuledger"+want] != nil
		if got := podsOf(t, all)["Deployment gpuledger-archive"].Spec.ServiceAccountName; got != want || created == strings.HasPrefix(set, "create") {
			t.Errorf("%s: account %s, created %v", set, got, created)
		}
	}
	if _, err := template(t, append(base, "--set=archive.serviceAccount.create=false,archive.serviceAccount.annotations.a=b")...); err == nil || !strings.Contains(err.Error(), "archive.serviceAccount.annotations has no effect") {
		t.Errorf("annotations of an account that is not created: %v", err)
	}
}

// TestChartSELinux checks that SELinux options in the values leave the other restrictions of the container unchanged.
func TestChartSELinux(t *testing.T) {
	before := podsOf(t, withTests(t))["DaemonSet gpuledger"].Spec.Containers[0].SecurityContext
	got := podsOf(t, withTests(t, "--set=securityContext.seLinuxOptions.type=spc_t"))["DaemonSet gpuledger"].Spec.Containers[0].SecurityContext
	before.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
	if diff := gocmp.Diff(before, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestArchiveEgress checks, for each value that can contain an address, that the network policy opens the port of the
// address.
func TestArchiveEgress(t *testing.T) {
	ports := func(t *testing.T, set string) []int32 {
		args := []string{"--set=archive.enabled=true,networkPolicy.enabled=true"}
		if set != "" {
			args = append(args, "--set-json=archive="+set)
		}
		var policy networkingv1.NetworkPolicy
		into(t, withTests(t, args...)["NetworkPolicygpuledgergpuledger-archive"], &policy)
		var found []int32
		for _, rule := range policy.Spec.Egress {
			for _, p := range rule.Ports {
				found = append(found, p.Port.IntVal)
			}
		}
		return found
	}
	before := ports(t, "")
	for _, usual := range []int32{53, 80, 443, 3306, 5432, 9090} {
		if !slices.Contains(before, usual) {
			t.Errorf("port %d is closed: %v", usual, before)
		}
	}
	tests := []struct {
		set  string
		want []int32
	}{
		{`{"store": {"url": "http://thanos.monitoring:9999/select/0"}}`, []int32{9999}},
		{`{"store": {"url": "https://mimir.example.com/prometheus"}, "postgresUrl": "postgres://archive@db/assets?sslmode=verify-full"}`, nil},
		{`{"postgresUrl": "postgres://archive@db:5433/assets"}`, []int32{5433}},
		{`{"postgresUrl": "postgres://archive@a:5433,b:5434,c/assets"}`, []int32{5433, 5434}},
		{`{"postgresUrl": "postgres://archive@[fd00::17]:5435/assets"}`, []int32{5435}},
		{`{"postgresUrl": "postgres://archive@[fd00::17]/assets"}`, nil},
		{`{"postgresUrl": "postgresql:///assets?host=db&port=5436&sslmode=require"}`, []int32{5436}},
		{`{"postgresUrl": "postgres://archive:5437@db/assets"}`, nil}, // password that looks like a port
		{`{"mysqlUrl": "mysql://archive@mysql:3307/assets?tls=true"}`, []int32{3307}},
		{`{"s3": {"url": "s3://assets/fleet", "endpoint": "http://minio.storage:9000"}}`, []int32{9000}},
		{`{"s3": {"url": "s3://assets/fleet", "endpoint": "minio.storage:9000"}}`, []int32{9000}},
		{`{"extraArgs": ["--to=s3://assets/fleet?endpoint=http://minio:9001&region=eu", "--http.url=https://cmdb.example.com:8443/gpus", "--cluster=east:1"]}`, []int32{9001, 8443}},
		{`{"extraArgs": ["--to=s3://assets/fleet?endpoint=http%3A%2F%2Fminio%3A9002", "--moves.url=http://moves:8081/hook"]}`, []int32{9002, 8081}},
		{`{"extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}]}`, []int32{3128}},
	}
	for _, tt := range tests {
		t.Run(tt.set, func(t *testing.T) {
			t.Parallel()
			if diff := gocmp.Diff(append(slices.Clone(before), tt.want...), ports(t, tt.set)); diff != "" {
				t.Errorf("ports (-want +got):\n%s", diff)
			}
		})
	}
}
