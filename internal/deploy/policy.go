package deploy

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/sidecar"
)

// ParametersNamespace is the namespace of the ConfigMap with the policy's parameters.
const ParametersNamespace = "gpuledger"

// pluginContainers contains the container names of device plugins. For NVIDIA, these are the names in the static
// manifest, in the Helm chart and in the GPU Operator. For AMD, these are all names in [sidecar.AMDContainers].
var pluginContainers = slices.Concat([]string{"nvidia-device-plugin-ctr", "nvidia-device-plugin"}, sidecar.AMDContainers)

// creators contains the users that create the pods of DaemonSets. Depending on the cluster, this is the account of the
// DaemonSet controller or the account of the controller manager.
var creators = []string{"system:serviceaccount:kube-system:daemon-set-controller", "system:kube-controller-manager"}

// Policy returns the policy that adds the container to the device plugin's pods.
//
// The API server ignores errors in the policy's expressions, so that an error does not keep a device plugin from
// starting. However, it rejects a pod that the policy makes invalid. Therefore each match condition excludes pods that
// would become invalid with the container.
func Policy() *admissionv1.MutatingAdmissionPolicy {
	return &admissionv1.MutatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: partOf},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			FailurePolicy:      new(admissionv1.Ignore),
			ReinvocationPolicy: admissionv1.IfNeededReinvocationPolicy,
			ParamKind:          &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
			MatchConstraints:   matchConstraints(),
			MatchConditions:    slices.Concat(matchConditions(), parameterConditions()),
			Variables:          variables(),
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch,
				JSONPatch: &admissionv1.JSONPatch{Expression: mutation()},
			}},
		},
	}
}

// Binding returns the binding that activates the policy and refers to its parameters.
func Binding() *admissionv1.MutatingAdmissionPolicyBinding {
	return &admissionv1.MutatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: partOf},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName: Name,
			ParamRef: &admissionv1.ParamRef{
				Namespace: ParametersNamespace, Name: sidecar.ParametersName,
				ParameterNotFoundAction: new(admissionv1.AllowAction),
			},
		},
	}
}

// matchConstraints restricts the policy to pods in one namespace. This is gpuledger's own namespace, in which there is
// no device plugin. Each overlay with the policy replaces this namespace by the namespace of its device plugin.
func matchConstraints() *admissionv1.MatchResources {
	return &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{ParametersNamespace}},
		}},
		ResourceRules: []admissionv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			},
		}},
	}
}

const pluginCondition = "is-a-device-plugin"

// matchConditions returns conditions for the pods that get the container. A pod must meet all of these conditions and
// all conditions that parameterConditions returns.
func matchConditions() []admissionv1.MatchCondition {
	return []admissionv1.MatchCondition{
		// The policy grants access to the host's PIDs. A user who can create pods must not get this right by copying
		// the name of the device plugin's container.
		{Name: "created-by-the-daemonset-controller", Expression: "request.userInfo.username in " + literal("", creators)},
		{Name: "owned-by-a-daemonset", Expression: "object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'DaemonSet' && o.?controller.orValue(false))"},
		{Name: pluginCondition, Expression: "object.spec.containers.exists(c, c.name in " + literal("", pluginContainers) + ")"},
		// Windows pods support neither hostPID nor a numeric user.
		{Name: "runs-linux", Expression: "object.spec.?os.name.orValue('linux') == 'linux' && " +
			"object.spec.?nodeSelector[?'" + corev1.LabelOSStable + "'].orValue('linux') == 'linux'"},
		// shareProcessNamespace cannot be combined with hostPID.
		{Name: "shares-no-processes", Expression: "!object.spec.?shareProcessNamespace.orValue(false)"},
		// In the host's network, the exporter's port would be a port of the node. If another pod, such as the replaced
		// pod, used this port, the device plugin could not be scheduled.
		{Name: "has-a-network-of-its-own", Expression: "!object.spec.?hostNetwork.orValue(false)"},
		{Name: "has-users-of-the-host", Expression: "!has(object.spec.hostUsers) || object.spec.hostUsers"},
		// If the pod itself has requests, the sum of its containers' requests must not exceed the pod's requests.
		{Name: "has-no-resources-of-its-own", Expression: "!has(object.spec.resources)"},
		{Name: "not-yet", Expression: "!(object.spec.containers + object.spec.?initContainers.orValue([])).exists(c, c.name == 'gpuledger') && " +
			"!object.spec.?volumes.orValue([]).exists(v, v.name.startsWith('gpuledger-'))"},
	}
}

// parameterConditions returns the conditions that read the parameters. A webhook's match conditions cannot read
// parameters, so [sidecar.Parameters.Refuse] implements the same rules.
func parameterConditions() []admissionv1.MatchCondition {
	return []admissionv1.MatchCondition{
		// Without an image for the container, or with a space in the image's name, the pod would be invalid.
		{Name: "has-an-image", Expression: trimmed("image") + ".matches('^" + sidecar.ImageName + "$')"},
		// The kubelet cannot read a Secret with an invalid name, and does not start the pod. An optional Secret may be
		// missing, but its name must be valid.
		{Name: "names-secrets", Expression: trimmed("webSecret") + ".matches('^(" + sidecar.SecretName + ")?$') && " +
			words("pullSecrets") + ".all(s, s.matches('^" + sidecar.SecretName + "$'))"},
		// If the parameter is missing, no node is selected. Therefore a lost setting never extends a roll-out to
		// more nodes.
		{Name: "is-on-a-chosen-node", Expression: "'*' in " + words("nodes") + " || " +
			"object.spec.?affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.orValue([])" +
			".exists(t, t.?matchFields.orValue([]).exists(f, f.key == 'metadata.name' && " +
			"f.?values.orValue([]).exists(n, n in " + words("nodes") + ")))"},
	}
}

func parameter(key string) string { return fmt.Sprintf("params.?data.?%s.orValue('')", key) }

func trimmed(key string) string { return parameter(key) + ".trim()" }

// words returns an expression for the list of the words in a parameter. Words are separated by commas, spaces and line
// ends.
func words(key string) string {
	return parameter(key) + `.replace(',', ' ').replace('\n', ' ').split(' ').filter(w, w != '')`
}

func variables() []admissionv1.Variable {
	return []admissionv1.Variable{
		{Name: "image", Expression: trimmed("image")},
		{Name: "arguments", Expression: parameter("arguments") + `.split('\n').map(a, a.trim()).filter(a, a != '')`},
		{Name: "pullSecrets", Expression: words("pullSecrets")},
		{Name: "webSecret", Expression: trimmed("webSecret")},
		{Name: "selinuxType", Expression: trimmed("selinuxType")},
		{Name: "pullPolicy", Expression: trimmed("pullPolicy")},
		{Name: "amd", Expression: "object.spec.containers.exists(c, c.name in " + literal("", sidecar.AMDContainers) + ")"},
		// This is the container's path after the policy has appended the container.
		{Name: "container", Expression: "'/spec/containers/' + string(size(object.spec.containers))"},
	}
}

// operation is one step of a JSON patch. Both fields are expressions.
type operation struct{ path, value string }

func (o operation) String() string {
	return fmt.Sprintf("JSONPatch{op: 'add', path: %s, value: %s}", o.path, o.value)
}

// mutation returns the expression for the JSON patch. The expression concatenates lists of operations. Depending on the
// pod, a list may be empty.
func mutation() string {
	always := []operation{
		annotate(sidecar.InjectedBy, "MutatingAdmissionPolicy "+Name),
		{"'/spec/hostPID'", "true"},
	}
	for _, volume := range sidecar.Volumes() {
		always = append(always, addVolume(volume))
	}
	always = append(always, operation{"'/spec/containers/-'", literal("Object.spec.containers", sidecar.PlainContainer("${image}"))})

	return strings.Join([]string{
		when("!has(object.metadata.annotations)", operation{"'/metadata/annotations'", "{}"}),
		when("!has(object.spec.volumes)", operation{"'/spec/volumes'", "[]"}),
		list(always),
		when("!variables.amd", forNVIDIA()...),
		when("variables.selinuxType != ''", operation{
			"variables.container + '/securityContext/seLinuxOptions'",
			literal("Object.spec.containers.securityContext.seLinuxOptions", corev1.SELinuxOptions{Type: "${selinuxType}"}),
		}),
		when("variables.pullPolicy in "+literal("", sidecar.PullPolicies), operation{"variables.container + '/imagePullPolicy'", "variables.pullPolicy"}),
		when("variables.webSecret != ''",
			addVolume(sidecar.WebVolume("${webSecret}")),
			operation{"variables.container + '/volumeMounts/-'", literal("Object.spec.containers.volumeMounts", sidecar.WebMount())},
			operation{"variables.container + '/args/-'", celString(sidecar.WebArg)}),
		"variables.arguments.map(a, " + operation{"variables.container + '/args/-'", "a"}.String() + ")",
		when("size(variables.pullSecrets) > 0 && !has(object.spec.imagePullSecrets)", operation{"'/spec/imagePullSecrets'", "[]"}),
		"variables.pullSecrets.filter(s, !object.spec.?imagePullSecrets.orValue([]).exists(p, p.?name.orValue('') == s)).map(s, " + operation{
			"'/spec/imagePullSecrets/-'", "Object.spec.imagePullSecrets{name: s}",
		}.String() + ")",
	}, " +\n") + "\n"
}

func annotate(key, value string) operation {
	return operation{"'/metadata/annotations/' + jsonpatch.escapeKey(" + celString(key) + ")", celString(value)}
}

// forNVIDIA returns the operations that add the annotation for NRI and change [sidecar.PlainContainer] into
// [sidecar.Container].
func forNVIDIA() []operation {
	operations := []operation{annotate(sidecar.NRIAnnotation, sidecar.NRIGPUs)}
	for i, env := range sidecar.NVIDIAEnv {
		path := fmt.Sprintf("variables.container + '/env/%d'", sidecar.NVIDIAEnvAt+i)
		operations = append(operations, operation{path, literal("Object.spec.containers.env", env)})
	}
	return operations
}

func addVolume(volume corev1.Volume) operation {
	return operation{"'/spec/volumes/-'", literal("Object.spec.volumes", volume)}
}

func when(condition string, operations ...operation) string {
	return "(" + condition + " ? " + list(operations) + " : [])"
}

func list(operations []operation) string {
	var lines []string
	for _, o := range operations {
		lines = append(lines, "  "+o.String())
	}
	return "[\n" + strings.Join(lines, ",\n") + "\n]"
}
