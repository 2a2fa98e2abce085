package advice_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/internal/doctor/advice"
	"github.com/gpuledger/gpuledger/test/golden"
)

type server struct {
	Version, Policies string
	Groups            map[string][]string
	Objects           []map[string]any
	// page is the maximum number of objects on a page. It is small, so that lists have several pages.
	page int
}

func load(t testing.TB, name string) *server {
	t.Helper()
	text, err := os.ReadFile("testdata/clusters/" + name + ".yaml")
	check(t, err)
	s := &server{page: 2}
	check(t, yaml.UnmarshalStrict(text, s))
	return s
}

var kinds = map[string]string{
	"Node": "nodes", "DaemonSet": "daemonsets", "Deployment": "deployments", "Pod": "pods", "ConfigMap": "configmaps", "Event": "events",
	"ResourceSlice": "resourceslices", "MutatingAdmissionPolicy": "mutatingadmissionpolicies", "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
	"MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
}

func (s *server) get(path string) ([]byte, error) {
	u, err := url.Parse(path)
	if err != nil {
		return nil, err
	}
	switch u.Path {
	case "/version":
		return json.Marshal(map[string]string{"major": "1", "gitVersion": s.Version})
	case "/apis":
		return json.Marshal(map[string]any{"kind": "APIGroupList", "groups": s.groups()})
	case "/apis/admissionregistration.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1beta1":
		resources := []map[string]string{{"name": "validatingadmissionpolicies"}}
		if s.Policies != "" && strings.HasSuffix(u.Path, "/"+s.Policies) {
			resources = append(resources, map[string]string{"name": "mutatingadmissionpolicies"}, map[string]string{"name": "mutatingadmissionpolicybindings"})
		}
		return json.Marshal(map[string]any{"kind": "APIResourceList", "resources": resources})
	}
	return s.list(u)
}

func (s *server) groups() (all []any) {
	for name, versions := range s.Groups {
		var list []any
		for _, v := range versions {
			list = append(list, map[string]string{"groupVersion": name + "/" + v, "version": v})
		}
		all = append(all, map[string]any{"name": name, "versions": list})
	}
	return all
}

func (s *server) list(u *url.URL) ([]byte, error) {
	parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(u.Path, "/apis/"), "/api/"), "/")
	namespace := ""
	if i := slices.Index(parts, "namespaces"); i >= 0 {
		namespace = parts[i+1]
	}
	var items []any
	for _, o := range s.Objects {
		m := o["metadata"].(map[string]any)
		in, _ := m["namespace"].(string)
		if kinds[o["kind"].(string)] != parts[len(parts)-1] || namespace != "" && in != namespace || !selected(o, m, u.Query()) {
			continue
		}
		items = append(items, o)
	}
	query := u.Query()
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit < 1 {
		return nil, fmt.Errorf("%s has no limit", u)
	}
	start, _ := strconv.Atoi(query.Get("continue"))
	end, next := len(items), ""
	if start+s.page < end {
		end, next = start+s.page, strconv.Itoa(start+s.page)
	}
	return json.Marshal(map[string]any{"kind": "List", "metadata": map[string]string{"continue": next}, "items": items[start:end]})
}

func selected(o, m map[string]any, query url.Values) bool {
	involved, _ := o["involvedObject"].(map[string]any)
	for term := range strings.SplitSeq(query.Get("fieldSelector"), ",") {
		key, want, _ := strings.Cut(term, "=")
		got := map[string]any{"": want, "metadata.name": m["name"], "involvedObject.kind": involved["kind"], "type": o["type"]}[key]
		if got != want {
			return false
		}
	}
	labels, _ := m["labels"].(map[string]any)
	for term := range strings.SplitSeq(query.Get("labelSelector"), ",") {
		if key, want, _ := strings.Cut(term, "="); key != "" && labels[key] != want {
			return false
		}
	}
	return true
}

var options = advice.Options{Namespace: "gpuledger", Release: "0.1.0"}

// clusters describes each cluster in testdata. rows contains the rows of the table in docs/install.md that fit the
// cluster.
var clusters = map[string]struct {
	rows, overlays string
	// values contains the values of the Helm chart for the first of these rows.
	values string
	status int
}{
	"operator":           {rows: "GPU Operator, Kubernetes ≥ 1.36", overlays: "operator", values: "platform=gpu-operator exporter.mode=sidecar"},
	"operator-elsewhere": {rows: "GPU Operator, Kubernetes ≥ 1.36", overlays: "operator", values: "platform=gpu-operator exporter.mode=sidecar devicePlugin.namespace=gpus"},
	"helm": {
		rows: "device plugin from its Helm chart, Kubernetes ≥ 1.36", overlays: "helm",
		values: "exporter.mode=sidecar devicePlugin.namespace=nvidia-device-plugin devicePlugin.daemonSet=nvdp-nvidia-device-plugin",
	},
	"helm-elsewhere": {
		rows: "device plugin from its Helm chart, Kubernetes ≥ 1.36", overlays: "helm",
		values: "exporter.mode=sidecar devicePlugin.namespace=gpus devicePlugin.daemonSet=plugin-nvidia-device-plugin",
	},
	"static":       {rows: "device plugin from its static manifest, Kubernetes ≥ 1.36", overlays: "static", values: "exporter.mode=sidecar devicePlugin.namespace=kube-system"},
	"eks-al2023":   {rows: "device plugin from its static manifest, Kubernetes ≥ 1.36", overlays: "static", values: "exporter.mode=sidecar devicePlugin.namespace=kube-system"},
	"beta":         {rows: "one of these clusters on 1.34 or 1.35, with the policy API enabled", overlays: "static+v1beta1", values: "exporter.mode=sidecar devicePlugin.namespace=kube-system"},
	"helm-134":     {rows: unchanged, overlays: "standalone"},
	"k3s":          {rows: unchanged, overlays: "standalone+runtime-class", values: "runtimeClassName=nvidia"},
	"old":          {rows: unchanged, overlays: "standalone"},
	"operator-133": {rows: "GPU Operator, Kubernetes < 1.36", overlays: "operator-standalone", values: "platform=gpu-operator"},
	"time-slicing": {rows: sharing, overlays: "operator-standalone", values: "platform=gpu-operator"},
	"mps":          {rows: sharing, overlays: "standalone"},
	"host-network": {rows: "device plugin on the host's network", overlays: "standalone"},
	"hami":         {rows: "HAMi", overlays: "standalone+runtime-class", values: "runtimeClassName=nvidia"},
	"talos":        {rows: "Talos", overlays: "standalone+runtime-class", values: "runtimeClassName=nvidia"},
	"k0s":          {rows: "k0s", overlays: "standalone+k0s", values: "kubeletPath=/var/lib/k0s/kubelet"},
	// In this cluster, the kubelet's usual directory is a link to another directory.
	"microk8s": {
		rows: "GPU Operator, Kubernetes ≥ 1.36", overlays: "operator", values: "platform=gpu-operator exporter.mode=sidecar devicePlugin.namespace=gpu-operator-resources",
	},
	"openshift":     {rows: "OpenShift with the GPU Operator", overlays: "openshift", values: "platform=openshift"},
	"dra":           {rows: "GPUs from the DRA driver", overlays: "dra", values: "platform=dra"},
	"gke":           {rows: "GKE with Google's device plugin", overlays: "gke", values: "platform=gke"},
	"gke-autopilot": {rows: "GKE Autopilot", overlays: ""},
	"eks-auto":      {rows: "EKS Auto Mode, Bottlerocket", overlays: "eks", values: "platform=eks"},
	"bottlerocket":  {rows: "EKS Auto Mode, Bottlerocket", overlays: "eks", values: "platform=eks"},
	"aks":           {rows: "AKS with managed GPU nodes", overlays: "aks", values: "platform=aks"},
	"oke":           {rows: "OKE with its GPU add-on", overlays: "oke", values: "platform=oke"},
	"amd-operator":  {rows: "AMD Instinct (experimental)", overlays: "amd", values: "platform=amd"},
	"amd-health":    {rows: "AMD's device plugin from its static manifest, Kubernetes ≥ 1.36", overlays: "amd-sidecar", values: "platform=amd exporter.mode=sidecar"},
	"amd-helm":      {rows: "AMD Instinct (experimental)", overlays: "amd", values: "platform=amd"},
	"amd-dra":       {rows: "AMD Instinct (experimental)", overlays: "amd", values: "platform=amd"},
	"amd-static":    {rows: "AMD's device plugin from its static manifest, Kubernetes ≥ 1.36", overlays: "amd-sidecar", values: "platform=amd exporter.mode=sidecar"},
	"both-vendors": {
		rows:     "GPU Operator, Kubernetes ≥ 1.36; AMD's device plugin from its static manifest, Kubernetes ≥ 1.36",
		overlays: "operator; amd-sidecar", values: "platform=gpu-operator exporter.mode=sidecar",
	},
	"addon":             {rows: "device plugin on the host's network", overlays: "standalone"},
	"webhook":           {rows: unchanged, overlays: "standalone"},
	"webhook-untrusted": {rows: unchanged, overlays: "standalone"},
	"sidecar-dcgm":      {rows: sharing, overlays: "operator-standalone", values: "platform=gpu-operator"},
	"no-gpus":           {},
	"unknown":           {rows: "", overlays: "standalone"},

	"well":                 {rows: unchanged, overlays: "standalone", status: advice.Well},
	"own-states":           {rows: unchanged, overlays: "standalone"},
	"operator-paused":      {rows: "GPU Operator, Kubernetes < 1.36", overlays: "operator-standalone", values: "platform=gpu-operator"},
	"patched":              {rows: unchanged, overlays: "standalone"},
	"sidecar-states":       {rows: "device plugin from its static manifest, Kubernetes ≥ 1.36", overlays: "static", values: "exporter.mode=sidecar devicePlugin.namespace=kube-system"},
	"sidecar-helm":         {rows: "device plugin from its Helm chart, Kubernetes ≥ 1.36", overlays: "helm", values: "exporter.mode=sidecar devicePlugin.namespace=gpus devicePlugin.daemonSet=plugin-nvidia-device-plugin"},
	"sidecar-elsewhere":    {rows: "device plugin from its Helm chart, Kubernetes ≥ 1.36", overlays: "helm", values: "exporter.mode=sidecar devicePlugin.namespace=gpus devicePlugin.daemonSet=plugin-nvidia-device-plugin"},
	"sidecar-switched-off": {rows: "device plugin from its Helm chart, Kubernetes ≥ 1.36", overlays: "helm", values: "exporter.mode=sidecar devicePlugin.namespace=gpus devicePlugin.daemonSet=plugin-nvidia-device-plugin"},
}

const (
	unchanged = "Helm chart or static manifest, if its pods must not change"
	sharing   = "time-slicing or MPS, or any device plugin with a configuration file (config.map, config.name, the operator's devicePlugin.config)"
)

// TestClusters checks the row, the overlay, the values, the exit status and the report for each cluster in testdata.
// For every cluster except "well", the report must ask the user to do something.
func TestClusters(t *testing.T) {
	files, err := filepath.Glob("testdata/clusters/*.yaml")
	check(t, err)
	if len(files) != len(clusters) {
		t.Errorf("%d files, want %d", len(files), len(clusters))
	}
	for name, want := range clusters {
		t.Run(name, func(t *testing.T) {
			cluster, err := advice.Read(load(t, name).get)
			check(t, err)
			var rows, overlays []string
			values := ""
			for i, choice := range cluster.Choices() {
				rows = append(rows, choice.Row)
				overlays = append(overlays, strings.Join(append([]string{choice.Overlay}, choice.Components...), "+"))
				if i == 0 {
					values = strings.Join(choice.Values(), " ")
				}
			}
			got := want
			got.rows, got.overlays, got.values = strings.Join(rows, "; "), strings.Join(overlays, "; "), values
			if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var out strings.Builder
			status, err := cluster.Write(&out, options)
			check(t, err)
			if want := map[bool]int{true: advice.Well, false: advice.ToDo}[name == "well"]; status != want {
				t.Errorf("status %d, want %d", status, want)
			}
			checkLines(t, out.String())
			golden.Check(t, "clusters/"+name+".txt", []byte(out.String()))
		})
	}
}

// checkLines checks that no line exceeds the width, unless a single word is too long.
func checkLines(t *testing.T, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if n := len([]rune(line)); n > advice.Width && len(strings.Fields(line)) > 2 {
			t.Errorf("a line has %d characters: %s", n, line)
		}
	}
}

func TestRequests(t *testing.T) {
	for name := range clusters {
		s := load(t, name)
		s.page = 500
		seen := make(map[string]bool)
		_, err := advice.Read(func(path string) ([]byte, error) {
			if seen[path] {
				t.Errorf("%s: %s is requested twice", name, path)
			}
			seen[path] = true
			return s.get(path)
		})
		check(t, err)
	}
}

// TestUnread checks documents that cannot be read. The report must list them, and the exit status must change. If the
// version or the Nodes cannot be read, there must be an error instead of a report.
func TestUnread(t *testing.T) {
	for _, tt := range []struct {
		path string
		want string
		fail bool
	}{
		{"/version", "read the version: forbidden", true},
		{"/api/v1/nodes", "read the Nodes: forbidden", true},
		{"/apis", "read the API groups: forbidden", false},
		{"/apis/apps/v1/daemonsets", "read the DaemonSets: forbidden", false},
		{"/api/v1/namespaces/gpuledger/pods", "read the Pods: forbidden", false},
		{"/api/v1/namespaces/gpuledger/events", "read the Events: forbidden", false},
		{"/apis/admissionregistration.k8s.io/v1", "read the resources of admissionregistration.k8s.io: forbidden", false},
	} {
		t.Run(tt.path, func(t *testing.T) {
			s := load(t, "well")
			cluster, err := advice.Read(func(path string) ([]byte, error) {
				if plain, _, _ := strings.Cut(path, "?"); plain == tt.path {
					return nil, fmt.Errorf("forbidden")
				}
				return s.get(path)
			})
			if tt.fail {
				if err == nil || err.Error() != tt.want {
					t.Errorf("error %v, want %s", err, tt.want)
				}
				return
			}
			check(t, err)
			var out strings.Builder
			status, err := cluster.Write(&out, options)
			check(t, err)
			if status != advice.Unreadable || !strings.Contains(out.String(), tt.want) {
				t.Errorf("status %d, want %d with %q:\n%s", status, advice.Unreadable, tt.want, out.String())
			}
		})
	}
}

// TestMany checks that the report lists only ten of a thousand Nodes in a group, or all of them with --all.
func TestMany(t *testing.T) {
	s := load(t, "own-states")
	s.page = 500
	var example map[string]any
	for _, o := range s.Objects {
		if o["kind"] == "Node" && o["metadata"].(map[string]any)["name"] == "gpu-2" {
			example = o
		}
	}
	text, err := json.Marshal(example)
	check(t, err)
	for i := range 1000 {
		var n map[string]any
		check(t, json.Unmarshal(text, &n))
		n["metadata"].(map[string]any)["name"] = "more-" + strconv.Itoa(i)
		s.Objects = append(s.Objects, n)
	}
	cluster, err := advice.Read(s.get)
	check(t, err)
	for _, all := range []bool{false, true} {
		o := options
		o.All = all
		var out strings.Builder
		_, err := cluster.Write(&out, o)
		check(t, err)
		checkLines(t, out.String())
		// A Node appears twice: in the list and in the command.
		if n, want := strings.Count(out.String(), "more-"), map[bool]int{false: 16, true: 2000}[all]; n != want {
			t.Errorf("with --all=%v the report names Nodes %d times, want %d", all, n, want)
		}
		if !strings.Contains(out.String(), "1002 Nodes with 8 nvidia.com/gpu: ") {
			t.Error("the report does not contain the number of Nodes")
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
