package sidecar

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Operation is one operation in a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Add returns an operation that adds a value at a path.
func Add(path string, value any) Operation { return Operation{Op: "add", Path: path, Value: value} }

// Patch returns the JSON patch that adds the container to a pod. The patch first adds lists and maps that the pod
// lacks.
func Patch(pod *Pod, p *Parameters) []Operation {
	var patch []Operation
	if !pod.Metadata.Annotations {
		patch = append(patch, Add("/metadata/annotations", map[string]string{}))
	}
	if !pod.Spec.Volumes {
		patch = append(patch, Add("/spec/volumes", []corev1.Volume{}))
	}
	patch = append(patch, annotate(InjectedBy, origin), Add("/spec/hostPID", true))
	if !pod.isAMD() {
		patch = append(patch, annotate(NRIAnnotation, NRIGPUs))
	}
	for _, v := range p.volumes() {
		patch = append(patch, Add("/spec/volumes/-", v))
	}
	patch = append(patch, Add("/spec/containers/-", p.container(pod)))
	return append(patch, p.pullSecrets(pod)...)
}

func annotate(key, value string) Operation {
	return Add("/metadata/annotations/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), value)
}

func (p *Parameters) volumes() []corev1.Volume {
	if p.WebSecret == "" {
		return Volumes()
	}
	return append(Volumes(), WebVolume(p.WebSecret))
}

func (p *Parameters) container(pod *Pod) corev1.Container {
	c := Container(p.Image)
	if pod.isAMD() {
		c = PlainContainer(p.Image)
	}
	if p.SELinuxType != "" {
		c.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: p.SELinuxType}
	}
	if policy := corev1.PullPolicy(p.PullPolicy); slices.Contains(PullPolicies, policy) {
		c.ImagePullPolicy = policy
	}
	if p.WebSecret != "" {
		c.VolumeMounts = append(c.VolumeMounts, WebMount())
		c.Args = append(c.Args, WebArg)
	}
	c.Args = append(c.Args, p.Arguments...)
	return c
}

// pullSecrets adds the pull Secrets that the pod lacks.
func (p *Parameters) pullSecrets(pod *Pod) []Operation {
	var patch []Operation
	if len(p.PullSecrets) > 0 && len(pod.Spec.ImagePullSecrets) == 0 {
		patch = append(patch, Add("/spec/imagePullSecrets", []corev1.LocalObjectReference{}))
	}
	for _, name := range p.PullSecrets {
		if !slices.Contains(pod.Spec.ImagePullSecrets, named{name}) {
			patch = append(patch, Add("/spec/imagePullSecrets/-", corev1.LocalObjectReference{Name: name}))
		}
	}
	return patch
}
