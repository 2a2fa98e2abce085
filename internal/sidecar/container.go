// Package sidecar defines the exporter's container and the patch that adds it to a pod.
//
// The generator of the manifests and the reconciler's webhook share this package, so both add an identical container.
package sidecar

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Name is the name of the exporter's container and port. It is also the prefix of the names of its volumes. A pod that
// contains such a name already has the container.
const Name = "gpuledger"

// Port is the port on which the exporter listens.
const Port = 9840

// tokenPath is the path at which the API server mounts the pod's ServiceAccount token into each container. It skips
// containers that already have a mount at this path.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // a path, not a credential

// mount is a folder on the host that the exporter uses.
type mount struct {
	name, path string
	writable   bool
}

var hostFolders = []mount{
	{name: "pod-resources", path: "/var/lib/kubelet/pod-resources"}, // allocated devices by container
	{name: "pods-api", path: "/var/lib/kubelet/pods-api"},           // UIDs of pods, since Kubernetes 1.37
	{name: "container-logs", path: "/var/log/containers"},           // UIDs of pods, from the targets of log links
	{name: "pod-logs", path: "/var/log/pods"},                       // UIDs of pods that have no log link
	{name: "state", path: "/run/gpuledger", writable: true},         // the state file, kept until the node reboots
}

// Container returns the exporter's container.
//
// The container has no probes, because a failed probe would make the device plugin's pod not ready and stall a
// roll-out. The exporter reports errors in its metrics.
func Container(image string) corev1.Container {
	c := PlainContainer(image)
	c.Env = slices.Insert(c.Env, NVIDIAEnvAt, NVIDIAEnv...)
	return c
}

// NVIDIAEnv makes NVIDIA's container toolkit add the driver's library and the GPUs to the container.
var NVIDIAEnv = []corev1.EnvVar{
	{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"},
	{Name: "NVIDIA_DRIVER_CAPABILITIES", Value: "utility"},
}

// NVIDIAEnvAt is the index of [NVIDIAEnv] in the container's list of variables.
const NVIDIAEnvAt = 1

// PlainContainer returns the exporter's container for the pods of AMD's device plugin. It does not request NVIDIA's
// driver, because the exporter reads AMD's GPUs in /sys.
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
			RunAsNonRoot:             new(false),    // overrides the setting of the pod
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

// Volumes returns the volumes that the container from [Container] mounts.
//
// The volumes of host folders have no type. Otherwise the kubelet would check the type before it starts the pod, and a
// failed check would keep the device plugin from starting. Without a type, the container runtime creates a missing
// folder. If this fails, only the exporter's container fails.
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

// The container mounts the exporter's web configuration at this path. The web configuration defines TLS and basic auth.
// It is in a Secret under the key web-config.yml.
const (
	webFolder = "/etc/gpuledger"
	WebArg    = "--web.config.file=" + webFolder + "/web-config.yml"
)

// WebVolume returns the volume for the Secret with a web configuration. The Secret is optional, so that the device
// plugin starts even without it. The argument must be a valid name of a Secret.
func WebVolume(secret string) corev1.Volume {
	return corev1.Volume{Name: volumeName("web"), VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, Optional: new(true)},
	}}
}

// WebMount returns the mount for [WebVolume].
func WebMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: volumeName("web"), MountPath: webFolder, ReadOnly: true}
}

// NRIAnnotation is the key of an annotation that requests GPUs for the container from the GPU Operator's NRI plugin.
// The value NRIGPUs requests all GPUs. The operator uses the NRI plugin if it is configured without a runtime class.
const (
	NRIAnnotation = "nvidia.cdi.k8s.io/container." + Name
	NRIGPUs       = "management.nvidia.com/gpu=all"
)

// InjectedBy is the annotation that names the mechanism that added the container.
const InjectedBy = "gpuledger.io/injected-by"

// Annotations returns the annotations for a pod with the container. The value of [InjectedBy] is origin. An empty
// origin omits this annotation.
func Annotations(origin string) map[string]string {
	annotations := map[string]string{NRIAnnotation: NRIGPUs}
	if origin != "" {
		annotations[InjectedBy] = origin
	}
	return annotations
}

func volumeName(name string) string { return Name + "-" + name }
