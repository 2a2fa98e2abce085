// Package sidecar defines the exporter's container and the patch that adds it to a pod.
//
// The generator of the manifests and the reconciler's webhook use it, so that both create the same
// container.
package sidecar

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Name is the name of the container, of its port, and the prefix of its volumes' names. A pod
// with such names already has the container.
const Name = "gpuledger"

// Port is the port of the exporter.
const Port = 9840

// tokenPath is the path at which admission mounts the pod's ServiceAccount token, in every
// container without another mount at exactly this path.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // a path, not a credential

// mount is a folder that the exporter uses, with its path on the host.
type mount struct {
	name, path string
	writable   bool
}

// hostFolders are the folders that the exporter reads, and the one folder that it writes.
var hostFolders = []mount{
	{name: "pod-resources", path: "/var/lib/kubelet/pod-resources"}, // allocated devices by container
	{name: "pods-api", path: "/var/lib/kubelet/pods-api"},           // UIDs of pods, from Kubernetes 1.37
	{name: "container-logs", path: "/var/log/containers"},           // UIDs of pods, from the names of links
	{name: "pod-logs", path: "/var/log/pods"},                       // UIDs of pods without links
	{name: "state", path: "/run/gpuledger", writable: true},         // the state file, kept until the node reboots
}

// Container returns the exporter's container.
//
// It has no probes: in the device plugin's pod a failed probe would make that pod not ready and
// stall a roll-out. The exporter reports errors in its metrics.
func Container(image string) corev1.Container {
	c := PlainContainer(image)
	c.Env = slices.Insert(c.Env, NVIDIAEnvAt, NVIDIAEnv...)
	return c
}

// NVIDIAEnv contains the variables that make NVIDIA's container toolkit add the driver's library and the
// GPUs.
var NVIDIAEnv = []corev1.EnvVar{
	{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"},
	{Name: "NVIDIA_DRIVER_CAPABILITIES", Value: "utility"},
}

// NVIDIAEnvAt is the place of [NVIDIAEnv] among the container's variables.
const NVIDIAEnvAt = 1

// PlainContainer returns the exporter's container without NVIDIA's driver, for AMD's device plugin:
// AMD's GPUs are read in /sys.
func PlainContainer(image string) corev1.Container {
	return corev1.Container{
		Name:  Name,
		Image: image,
		Args:  []string{"--web.listen-address=:9840"},
		Env: []corev1.EnvVar{
			{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
		},
		Ports: []corev1.ContainerPort{{Name: Name, ContainerPort: Port, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
		},
		SecurityContext: &corev1.SecurityContext{
			RunAsUser:                new(int64(0)), // only root can read the kubelet's sockets and the DMI serial numbers
			RunAsNonRoot:             new(false),    // overrides the pod's setting
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		VolumeMounts: volumeMounts(),
	}
}

func volumeMounts() []corev1.VolumeMount {
	var mounts []corev1.VolumeMount
	for _, m := range hostFolders {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeName(m.name), MountPath: m.path, ReadOnly: !m.writable})
	}
	return append(mounts, corev1.VolumeMount{Name: volumeName("no-token"), MountPath: tokenPath, ReadOnly: true})
}

// Volumes returns the volumes of [Container].
//
// The host's folders have no type: the kubelet would check it for the whole pod, and a failed
// check would keep the device plugin from starting. The container runtime creates a missing
// folder. If it cannot, only the exporter's container fails.
func Volumes() []corev1.Volume {
	var volumes []corev1.Volume
	for _, m := range hostFolders {
		volumes = append(volumes, corev1.Volume{Name: volumeName(m.name), VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: m.path},
		}})
	}
	return append(volumes, corev1.Volume{Name: volumeName("no-token"), VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("1Mi"))},
	}})
}

// The exporter's web configuration, with TLS and basic auth, is stored in a Secret under the
// key web-config.yml.
const (
	webFolder = "/etc/gpuledger"
	WebArg    = "--web.config.file=" + webFolder + "/web-config.yml"
)

// WebVolume returns the volume of a Secret with a web configuration. It is optional, so that the
// device plugin starts while the Secret is missing. The name must be valid for a Secret.
func WebVolume(secret string) corev1.Volume {
	return corev1.Volume{Name: volumeName("web"), VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, Optional: new(true)},
	}}
}

// WebMount returns the mount of [WebVolume].
func WebMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: volumeName("web"), MountPath: webFolder, ReadOnly: true}
}

// NRIAnnotation is the annotation that requests all GPUs for the container from the GPU Operator's
// NRI plugin, for its mode without a runtime class.
const (
	NRIAnnotation = "nvidia.cdi.k8s.io/container." + Name
	NRIGPUs       = "management.nvidia.com/gpu=all"
)

// InjectedBy is the annotation that names the origin of an added container.
const InjectedBy = "gpuledger.io/injected-by"

// Annotations returns the annotations of a pod with the container. origin names the mechanism that
// added the container, or is empty.
func Annotations(origin string) map[string]string {
	annotations := map[string]string{NRIAnnotation: NRIGPUs}
	if origin != "" {
		annotations[InjectedBy] = origin
	}
	return annotations
}

func volumeName(name string) string { return Name + "-" + name }
