package sidecar

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ParametersName is the name of the ConfigMap with the parameters. No pod gets the container if the ConfigMap, the
// image or the nodes are missing.
const ParametersName = "gpuledger-sidecar"

// Parameters contains the settings for the exporter's container in a cluster. The admission policy reads the same keys
// and applies the same rules.
type Parameters struct {
	Image       string
	Arguments   []string
	PullSecrets []string
	WebSecret   string
	SELinuxType string
	// PullPolicy is ignored if it is not one of [PullPolicies].
	PullPolicy string
	// Nodes lists the nodes on which pods get the container. The name * selects all nodes.
	Nodes []string
}

// Parse reads the parameters from the data of the ConfigMap.
func Parse(data map[string]string) Parameters {
	return Parameters{
		Image:       strings.TrimSpace(data["image"]),
		Arguments:   lines(data["arguments"]),
		PullSecrets: words(data["pullSecrets"]),
		WebSecret:   strings.TrimSpace(data["webSecret"]),
		SELinuxType: strings.TrimSpace(data["selinuxType"]),
		PullPolicy:  strings.TrimSpace(data["pullPolicy"]),
		Nodes:       words(data["nodes"]),
	}
}

// lines returns the trimmed lines of a text. It omits empty lines.
func lines(text string) []string {
	var all []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// words splits a text at commas, spaces and line ends. Other white space is part of an item.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}

// These patterns match valid names of images and Secrets.
const (
	ImageName  = "[!-~]+"
	SecretName = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
)

// PullPolicies lists the valid pull policies. Any other value would make the pod invalid.
var PullPolicies = []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}

var (
	validImage  = regexp.MustCompile("^" + ImageName + "$")
	validSecret = regexp.MustCompile("^" + SecretName + "$")
)

// Reason is the reason why a pod does not get the container.
type Reason string

// Each reason depends on the parameters.
const (
	NoImage           Reason = "no_image"
	InvalidSecretName Reason = "invalid_secret_name"
	NodeNotSelected   Reason = "node_not_selected"
)

// Refuse returns the reason why a pod does not get the container. The reason is empty if the pod gets it.
func (p *Parameters) Refuse(pod *Pod) Reason {
	invalid := func(name string) bool { return !validSecret.MatchString(name) }
	selected := func(node string) bool { return slices.Contains(p.Nodes, node) }
	switch {
	case !validImage.MatchString(p.Image):
		return NoImage
	case p.WebSecret != "" && invalid(p.WebSecret), slices.ContainsFunc(p.PullSecrets, invalid):
		return InvalidSecretName
	case !selected("*") && !slices.ContainsFunc(pod.nodes(), selected):
		return NodeNotSelected
	}
	return ""
}
