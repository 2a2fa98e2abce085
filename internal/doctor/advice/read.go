package advice

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Get returns the document at a path of the API server, such as /api/v1/nodes?limit=500.
type Get func(path string) ([]byte, error)

// Cluster contains all data about a cluster that the advice needs.
type Cluster struct {
	version    string // Kubernetes version, such as v1.36.2+k3s1
	minor      int
	groups     apiGroups
	policyAPI  string // version of the API group that serves MutatingAdmissionPolicy, or empty
	nodes      []node
	daemonSets []daemonSet
	drivers    map[string][]string // DRA drivers that publish GPUs, by Node
	hosts      []host
	injector   *injector
	reconciler *deployment
	unread     []string // one line for each document that could not be read
}

// host describes a DaemonSet that has the exporter's container, or to which a policy may add this
// container. It contains the DaemonSet's pods and warnings.
type host struct {
	set    *daemonSet
	own    bool // the exporter's own DaemonSet
	pods   []pod
	events []event
}

// injector describes the admission policy or the webhook that adds the exporter to pods.
type injector struct {
	form       string // name in the report: "an admission policy" or "a webhook"
	metadata   meta
	conditions []string // names of the conditions
	selector   []requirement
	unbound    string // reason why the policy or webhook is not in force, or empty
	parameters *configMap
	namespace  string // namespace of the ConfigMap with the parameters
	name       string
}

const (
	pageSize = 500
	maxPages = 2000
	// Namespace is the namespace that the documentation uses.
	Namespace     = "gpuledger"
	containerName = "gpuledger"
	admission     = "admissionregistration.k8s.io"
	partOf        = "labelSelector=app.kubernetes.io/part-of%3Dgpuledger"
)

// Read reads the state of a cluster. It returns an error if it cannot read the version or the Nodes.
// The report lists other documents that could not be read.
func Read(get Get) (*Cluster, error) {
	c := &Cluster{drivers: make(map[string][]string)}
	if err := c.readVersion(get); err != nil {
		return nil, err
	}
	r := &reader{get: get, lists: make(map[string]any)}
	c.nodes = read[node](r, "Nodes", "/api/v1/nodes")
	if r.err != nil {
		return nil, r.err
	}
	if err := decode(get, "/apis", &c.groups); err != nil {
		r.fail("API groups", err)
	}
	c.daemonSets = read[daemonSet](r, "DaemonSets", "/apis/apps/v1/daemonsets")
	c.readSlices(r)
	c.readPolicy(r)
	c.readWebhook(r)
	c.readParameters(r)
	for _, d := range read[deployment](r, "Deployments", "/apis/apps/v1/deployments?"+partOf) {
		if d.Metadata.Name == "gpuledger-reconciler" {
			c.reconciler = &d
		}
	}
	c.readHosts(r)
	c.unread = r.unread
	return c, nil
}

var minorVersion = regexp.MustCompile(`^v?1\.([0-9]{1,4})\b`)

func (c *Cluster) readVersion(get Get) error {
	var v struct{ GitVersion string }
	if err := decode(get, "/version", &v); err != nil {
		return fmt.Errorf("read the version: %w", err)
	}
	match := minorVersion.FindStringSubmatch(v.GitVersion)
	if match == nil {
		return fmt.Errorf("read the version: %q is not a Kubernetes version", v.GitVersion)
	}
	c.version = v.GitVersion
	c.minor, _ = strconv.Atoi(match[1]) // the expression matches only digits
	return nil
}

// serves reports whether the API server serves a version of a group, or any version if the given
// version is empty.
func (c *Cluster) serves(group, version string) bool {
	for _, g := range c.groups.Groups {
		if g.Name == group {
			return version == "" || slices.ContainsFunc(g.Versions, func(v struct{ Version string }) bool { return v.Version == version })
		}
	}
	return false
}

var draDrivers = map[string]vendor{"gpu.nvidia.com": nvidia, "gpu.amd.com": amd}

func (c *Cluster) readSlices(r *reader) {
	for _, version := range []string{"v1", "v1beta2", "v1beta1"} {
		if !c.serves("resource.k8s.io", version) {
			continue
		}
		for _, s := range read[resourceSlice](r, "ResourceSlices", "/apis/resource.k8s.io/"+version+"/resourceslices") {
			name := s.Spec.NodeName
			if draDrivers[s.Spec.Driver] != "" && name != "" && !slices.Contains(c.drivers[name], s.Spec.Driver) {
				c.drivers[name] = append(c.drivers[name], s.Spec.Driver)
			}
		}
		return
	}
}

func (c *Cluster) readPolicy(r *reader) {
	for _, version := range []string{"v1", "v1beta1"} {
		if !c.serves(admission, version) {
			continue
		}
		var all apiResources
		if err := decode(r.get, "/apis/"+admission+"/"+version, &all); err != nil {
			r.fail("resources of "+admission, err)
			return
		}
		if slices.ContainsFunc(all.Resources, func(x struct{ Name string }) bool { return x.Name == "mutatingadmissionpolicies" }) {
			c.policyAPI = version
			break
		}
	}
	if c.policyAPI == "" {
		return
	}
	path, query := "/apis/"+admission+"/"+c.policyAPI+"/", "?fieldSelector=metadata.name%3Dgpuledger"
	policies := read[policy](r, "MutatingAdmissionPolicies", path+"mutatingadmissionpolicies"+query)
	if len(policies) == 0 {
		return
	}
	i := &injector{
		form: "an admission policy", metadata: policies[0].Metadata, selector: policies[0].Spec.MatchConstraints.NamespaceSelector.MatchExpressions,
		unbound: "the policy has no binding: install again", namespace: Namespace, name: "gpuledger-sidecar",
	}
	for _, condition := range policies[0].Spec.MatchConditions {
		i.conditions = append(i.conditions, condition.Name)
	}
	c.injector = i
	for _, b := range read[binding](r, "MutatingAdmissionPolicyBindings", path+"mutatingadmissionpolicybindings"+query) {
		if b.Spec.PolicyName == policies[0].Metadata.Name {
			i.unbound, i.namespace, i.name = "", b.Spec.ParamRef.Namespace, b.Spec.ParamRef.Name
		}
	}
}

// readWebhook reads the reconciler's webhook. On clusters that do not serve the policy API, the
// webhook adds the container.
func (c *Cluster) readWebhook(r *reader) {
	if c.injector != nil || !c.serves(admission, "v1") {
		return
	}
	for _, w := range read[webhooks](r, "MutatingWebhookConfigurations", "/apis/"+admission+"/v1/mutatingwebhookconfigurations?fieldSelector=metadata.name%3Dgpuledger") {
		if len(w.Webhooks) == 0 {
			continue
		}
		hook := w.Webhooks[0]
		i := &injector{form: "a webhook", metadata: w.Metadata, selector: hook.NamespaceSelector.MatchExpressions, namespace: hook.ClientConfig.Service.Namespace, name: "gpuledger-sidecar"}
		if hook.ClientConfig.CABundle == "" {
			i.unbound = `the webhook has no caBundle, so the API server ignores the webhook: see section "Without the policy API" in docs/platforms.md`
		}
		for _, condition := range hook.MatchConditions {
			i.conditions = append(i.conditions, condition.Name)
		}
		// In clusters with the webhook, the reconciler evaluates these conditions.
		i.conditions = append(i.conditions, "has-an-image", "names-secrets", "is-on-a-chosen-node")
		c.injector = i
	}
}

func (c *Cluster) readParameters(r *reader) {
	if c.injector == nil {
		return
	}
	path := "/api/v1/namespaces/" + url.PathEscape(c.injector.namespace) + "/configmaps"
	for _, m := range read[configMap](r, "ConfigMaps", path+"?fieldSelector="+url.QueryEscape("metadata.name="+c.injector.name)) {
		c.injector.parameters = &m
	}
}

func (i *injector) namespaces() (names []string) {
	if i == nil {
		return nil
	}
	for _, e := range i.selector {
		if e.Key == "kubernetes.io/metadata.name" && e.Operator == "In" {
			names = append(names, e.Values...)
		}
	}
	return names
}

// readHosts reads pods and warnings. It reads them for the DaemonSets that contain the exporter, and for the DaemonSets
// to which a policy may add the exporter.
func (c *Cluster) readHosts(r *reader) {
	for i := range c.daemonSets {
		d := &c.daemonSets[i]
		component := d.Metadata.Labels["app.kubernetes.io/component"]
		with := d.Spec.Template.Spec.has(containerName)
		if !with && pluginOf(d) == nil && !otherHost(&d.Spec.Template.Spec) || component == "prepull" || len(d.Spec.Selector.MatchLabels) == 0 {
			continue
		}
		h := host{set: d, own: with && component == "exporter"}
		var selectors []string
		for key, value := range d.Spec.Selector.MatchLabels {
			selectors = append(selectors, key+"="+value)
		}
		slices.Sort(selectors)
		path := "/api/v1/namespaces/" + url.PathEscape(d.Metadata.Namespace)
		for _, p := range read[pod](r, "Pods", path+"/pods?labelSelector="+url.QueryEscape(strings.Join(selectors, ","))) {
			if slices.ContainsFunc(p.Metadata.OwnerReferences, func(o owner) bool { return o.Kind == "DaemonSet" && o.Name == d.Metadata.Name }) {
				h.pods = append(h.pods, p)
			}
		}
		for _, e := range read[event](r, "Events", path+"/events?fieldSelector="+url.QueryEscape("involvedObject.kind=DaemonSet,type=Warning")) {
			if e.InvolvedObject.Name == d.Metadata.Name {
				h.events = append(h.events, e)
			}
		}
		c.hosts = append(c.hosts, h)
	}
}

func (s *podSpec) has(name string) bool {
	return slices.ContainsFunc(s.Containers, func(c container) bool { return c.Name == name })
}

type reader struct {
	get    Get
	lists  map[string]any // lists of objects that were already read, by path; DaemonSets may need the same list
	err    error          // last error
	unread []string
}

func (r *reader) fail(kind string, err error) {
	r.err = fmt.Errorf("read the %s: %w", kind, err)
	if line := r.err.Error(); !slices.Contains(r.unread, line) {
		r.unread = append(r.unread, line)
	}
}

// read requests each list only once. If an object has an unexpected form, read counts the object and omits it.
func read[T any](r *reader, kind, path string) []T {
	if all, known := r.lists[path].([]T); known {
		return all
	}
	all := readPages[T](r, kind, path)
	r.lists[path] = all
	return all
}

func readPages[T any](r *reader, kind, path string) (all []T) {
	separator, next, invalid := "?", "", 0
	if strings.Contains(path, "?") {
		separator = "&"
	}
	for range maxPages {
		page := path + separator + "limit=" + strconv.Itoa(pageSize)
		if next != "" {
			page += "&continue=" + url.QueryEscape(next)
		}
		var l list
		if err := decode(r.get, page, &l); err != nil {
			r.fail(kind, err)
			return all
		}
		for _, text := range l.Items {
			var item T
			if json.Unmarshal(text, &item) != nil {
				invalid++
				continue
			}
			all = append(all, item)
		}
		if l.Metadata.Continue == "" || l.Metadata.Continue == next {
			break
		}
		next = l.Metadata.Continue
	}
	if invalid > 0 {
		r.unread = append(r.unread, fmt.Sprintf("read the %s: %d have an unexpected form", kind, invalid))
	}
	return all
}

func decode(get Get, path string, into any) error {
	text, err := get(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return errors.New("the response is not the expected document")
	}
	return nil
}
