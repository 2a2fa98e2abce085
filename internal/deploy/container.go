package deploy

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Name is the name of the container, of its port, and the beginning of the names of
// its volumes. What carries it was put there by us.
const Name = "gpuledger"

// partOf are the labels of every object that we make, whatever its kind: by them it
// is found when everything is removed.
var partOf = map[string]string{"app.kubernetes.io/part-of": Name}

// Image is the exporter's image without a tag. The manifests name it by version, since a
// digest is known only once the release is built; who installs it can pin that.
const Image = "ghcr.io/gpuledger/gpuledger"

// Tag is what stands in the manifests of this repository.
const Tag = ":v0.1.0"

// Port is where the exporter listens.
const Port = 9840

// tokenPath is where admission mounts the pod's ServiceAccount token, in every
// container that has no mount of its own at exactly this path.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // a path, not a credential

// mount is a folder of the exporter: where it is on the host, and why it is needed.
type mount struct {
	name, path string
	writable   bool
}

// hostFolders are what the exporter reads, and the one folder that it writes.
var hostFolders = []mount{
	{name: "pod-resources", path: "/var/lib/kubelet/pod-resources"}, // which container was given which device
	{name: "pods-api", path: "/var/lib/kubelet/pods-api"},           // which UID a pod has, from Kubernetes 1.37
	{name: "container-logs", path: "/var/log/containers"},           // the same, from the names of links
	{name: "pod-logs", path: "/var/log/pods"},                       // the same, where there are no links
	{name: "state", path: "/run/gpuledger", writable: true},         // the books, for as long as the node is up
}

// Container returns the exporter's container.
//
// It has no probes: in the device plugin's pod a failed probe would make that pod not
// ready and stall a roll-out, and the exporter reports what is wrong in its metrics.
func Container(image string) corev1.Container {
	return corev1.Container{
		Name:  Name,
		Image: image,
		Args:  []string{"--web.listen-address=:9840"},
		Env: []corev1.EnvVar{
			{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
			// The container toolkit adds the driver's library and the GPUs.
			{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"},
			{Name: "NVIDIA_DRIVER_CAPABILITIES", Value: "utility"},
			{Name: "GOMEMLIMIT", Value: "100MiB"},
		},
		Ports: []corev1.ContainerPort{{Name: Name, ContainerPort: Port, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
		},
		SecurityContext: &corev1.SecurityContext{
			RunAsUser:                new(int64(0)), // the kubelet's sockets and the DMI serial numbers are root's
			RunAsNonRoot:             new(false),    // the pod may say otherwise
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
// The host's folders have no type: the kubelet would check it for the whole pod, and
// a check that fails would keep the device plugin from starting. The container
// runtime makes a missing folder, and where it cannot, only our container fails.
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

// The exporter's web configuration, with TLS and basic auth, comes from a Secret
// that holds it under the key web-config.yml.
const (
	webFolder = "/etc/gpuledger"
	webArg    = "--web.config.file=" + webFolder + "/web-config.yml"
)

// webVolume returns the volume of a Secret with a web configuration. It is optional,
// so that the device plugin starts while it is missing; its name must be a Secret's.
func webVolume(secret string) corev1.Volume {
	return corev1.Volume{Name: volumeName("web"), VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, Optional: new(true)},
	}}
}

func webMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: volumeName("web"), MountPath: webFolder, ReadOnly: true}
}

// Annotations returns the annotations of a pod with the container. The first asks the
// GPU Operator's NRI plugin for all GPUs, in the mode where no runtime class does.
func Annotations(injectedBy string) map[string]string {
	annotations := map[string]string{"nvidia.cdi.k8s.io/container." + Name: "management.nvidia.com/gpu=all"}
	if injectedBy != "" {
		annotations["gpuledger.io/injected-by"] = injectedBy
	}
	return annotations
}

func volumeName(name string) string { return Name + "-" + name }
