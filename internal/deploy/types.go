package deploy

import (
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gpuledger/gpuledger/internal/sidecar"
)

// Each type stands for strings with a certain format; leaves contains the formats. If a setting's default is empty, an
// empty string is also valid for the setting.
type (
	absolutePath string
	duration     string // duration in the format of Prometheus
	image        string // repository with its registry
	name         string // name of a Kubernetes object
)

// Objects of the Prometheus operator and of this chart.
type (
	namedSecret struct {
		Name name `json:"name"`
	}
	hostVolume struct {
		Name     name         `json:"name"`
		HostPath absolutePath `json:"hostPath"`
	}
	// owner contains an API group, and the kinds in this group that own pods.
	owner struct {
		Group     string   `json:"group"`
		Resources []string `json:"resources"`
	}
	// relabeling is the operator's RelabelConfig.
	relabeling struct {
		SourceLabels []string `json:"sourceLabels,omitempty"`
		Separator    string   `json:"separator,omitempty"`
		TargetLabel  string   `json:"targetLabel,omitempty"`
		Regex        string   `json:"regex,omitempty"`
		Modulus      int64    `json:"modulus,omitempty"`
		Replacement  string   `json:"replacement,omitempty"`
		Action       string   `json:"action,omitempty"`
	}
	// tlsConfig is the operator's TLSConfig.
	tlsConfig struct {
		CA                 *secretOrConfigMap        `json:"ca,omitempty"`
		Cert               *secretOrConfigMap        `json:"cert,omitempty"`
		KeySecret          *corev1.SecretKeySelector `json:"keySecret,omitempty"`
		ServerName         string                    `json:"serverName,omitempty"`
		InsecureSkipVerify bool                      `json:"insecureSkipVerify,omitempty"`
		MinVersion         string                    `json:"minVersion,omitempty"`
		MaxVersion         string                    `json:"maxVersion,omitempty"`
		CAFile             string                    `json:"caFile,omitempty"`
		CertFile           string                    `json:"certFile,omitempty"`
		KeyFile            string                    `json:"keyFile,omitempty"`
	}
	secretOrConfigMap struct {
		Secret    *corev1.SecretKeySelector    `json:"secret,omitempty"`
		ConfigMap *corev1.ConfigMapKeySelector `json:"configMap,omitempty"`
	}
)

// settingTypes contains the types of settings whose default, such as an empty list, does not show the type. The key is
// the last part of the setting's name or, if several settings end with this part, the whole name. The value is a schema
// or a value of a Go type.
var settingTypes = map[string]any{
	"additionalLabels":            map[string]string{},
	"affinity":                    corev1.Affinity{},
	"annotations":                 map[string]string{},
	"archive.serviceAccount.name": name(""),
	"daemonSet":                   name(""),
	"dcgm.address":                &schema{Type: "string", Pattern: `^.+:[0-9]+$`},
	"dcgm.fields":                 &schema{Type: "string", Pattern: `^(default|/.*)$`},
	"digest":                      &schema{Type: "string", Pattern: `^(sha256:[0-9a-f]{64})?$`},
	"disabled":                    map[string]bool{},
	"existingConfigMap":           name(""),
	"existingSecret":              name(""),
	"archive.chain.configMap":     name(""),
	"archive.chain.publish":       []string{},
	"archive.web.from":            []networkingv1.NetworkPolicyPeer{},
	"keySecret":                   name(""),
	"readersConfigMap":            name(""),
	"readersSecret":               name(""),
	"archive.web.service.port":    &schema{Type: "integer", Minimum: new(1), Maximum: new(65535)},
	"extraArgs":                   []string{},
	"extraEnv":                    []corev1.EnvVar{},
	"extraHostVolumes":            []hostVolume{},
	"extraVolumeMounts":           []corev1.VolumeMount{},
	"global.imagePullSecrets":     &schema{Type: "array", Items: &schema{Type: []string{"string", "object"}}},
	"global.imageRegistry":        &schema{Type: "string", Pattern: `^([^/:@\s]+(:[0-9]+)?(/[^:@\s]*)?)?$`},
	"httpConfigFile":              &schema{Type: "string", Pattern: `^(/.*)?$`},
	"imagePullSecrets":            []namedSecret{},
	"interval":                    duration(""),
	"kubeletPath":                 absolutePath(""),
	"labels":                      map[string]string{},
	"namespace":                   name(""),
	"namespaceOverride":           name(""),
	"nodeSelector":                map[string]string{},
	"owners":                      []owner{},
	"podAnnotations":              map[string]string{},
	"podLabels":                   map[string]string{},
	"priorityClassName":           name(""),
	"prometheusNamespace":         name(""),
	"relabelings":                 []relabeling{},
	"replicas":                    &schema{Type: "integer", Minimum: new(0)},
	"repository":                  image(""),
	"resources":                   corev1.ResourceRequirements{},
	"runtimeClassName":            name(""),
	"seLinuxOptions":              corev1.SELinuxOptions{},
	"service.port":                &schema{Type: "integer", Minimum: new(1), Maximum: new(65535)},
	"tag":                         &schema{Type: "string", Pattern: `^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$`},
	"tlsConfig":                   tlsConfig{},
	"tolerations":                 []corev1.Toleration{},
	"topologySpreadConstraints":   []corev1.TopologySpreadConstraint{},
	"updateStrategy":              appsv1.DaemonSetUpdateStrategy{},
}

// quantity is the format of a resource.Quantity without a sign, because no setting may be negative.
const quantity = `^([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$`

// leaves contains the schemas of Go types for which the schema cannot be derived from the fields.
var leaves = map[reflect.Type]*schema{
	reflect.TypeFor[absolutePath]():       {Type: "string", Pattern: `^/`},
	reflect.TypeFor[duration]():           {Type: "string", Pattern: `^(0|([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$`},
	reflect.TypeFor[image]():              {Type: "string", Pattern: `^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9._-]+(/[a-z0-9._-]+)*$`},
	reflect.TypeFor[name]():               {Type: "string", Pattern: "^(" + sidecar.SecretName + ")?$"},
	reflect.TypeFor[resource.Quantity]():  {Type: []string{"string", "number"}, Pattern: quantity, Minimum: new(0)},
	reflect.TypeFor[intstr.IntOrString](): {Type: []string{"string", "integer"}},

	reflect.TypeFor[corev1.TaintEffect]():                   choice(corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute, ""),
	reflect.TypeFor[corev1.TolerationOperator]():            choice(corev1.TolerationOpExists, corev1.TolerationOpEqual, corev1.TolerationOpLt, corev1.TolerationOpGt, ""),
	reflect.TypeFor[corev1.NodeSelectorOperator]():          choice(corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt),
	reflect.TypeFor[metav1.LabelSelectorOperator]():         choice(metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist),
	reflect.TypeFor[corev1.UnsatisfiableConstraintAction](): choice(corev1.DoNotSchedule, corev1.ScheduleAnyway),
	reflect.TypeFor[appsv1.DaemonSetUpdateStrategyType]():   choice(appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType, ""),
}

func choice[S ~string](values ...S) *schema {
	s := &schema{Type: "string"}
	for _, value := range values {
		s.Choices = append(s.Choices, string(value))
	}
	return s
}

type types map[string]*schema

// of returns the schema of a Go type from the Kubernetes API. A field without omitempty is required.
func (d types) of(t reflect.Type) (*schema, error) {
	if leaf := leaves[t]; leaf != nil {
		return leaf, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.of(t.Elem())
	case reflect.String:
		return &schema{Type: "string"}, nil
	case reflect.Bool:
		return &schema{Type: "boolean"}, nil
	case reflect.Int32, reflect.Int64:
		return &schema{Type: "integer"}, nil
	case reflect.Slice:
		items, err := d.of(t.Elem())
		return &schema{Type: "array", Items: items}, err
	case reflect.Map:
		values, err := d.of(t.Elem())
		return &schema{Type: "object", Additional: values}, err
	case reflect.Struct:
		if d[t.Name()] == nil {
			d[t.Name()] = section("") // set before the schemas of the fields, because a field may contain the type itself
			if err := d.addFields(d[t.Name()], t); err != nil {
				return nil, err
			}
		}
		return &schema{Ref: "#/definitions/" + t.Name()}, nil
	}
	return nil, fmt.Errorf("no schema for Go type %s", t)
}

func (d types) addFields(s *schema, t reflect.Type) error {
	for field := range t.Fields() {
		key, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && key == "" {
			if err := d.addFields(s, field.Type); err != nil {
				return err
			}
			continue
		}
		value, err := d.of(field.Type)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t.Name(), key, err)
		}
		if key == "mountPath" {
			value = leaves[reflect.TypeFor[absolutePath]()]
		}
		s.Properties[key] = value
		if !strings.Contains(options, "omit") {
			s.Required = append(s.Required, key)
		}
	}
	return nil
}

func (d types) property(v *Value) (*schema, error) {
	kind, ok := settingTypes[v.Name()]
	if !ok {
		kind, ok = settingTypes[v.Path[len(v.Path)-1]]
	}
	if !ok {
		kind, err := jsonType(v.Default)
		return &schema{Comment: v.Comment, Type: kind, Choices: v.Choices}, err
	}
	s, isSchema := kind.(*schema)
	if !isSchema {
		var err error
		if s, err = d.of(reflect.TypeOf(kind)); err != nil {
			return nil, err
		}
	}
	described := *s
	described.Comment = v.Comment
	return &described, nil
}
