// Package podmapper maps processes to containers and containers to their allocated devices.
//
// The package reads only sources on the node. The cgroup of a process (/proc/<pid>/cgroup) contains the UID of its pod
// and the id of its container. The kubelet's pod-resources socket lists the ids of the devices that device plugins and
// DRA drivers allocated to each container. This list contains the names of pods but no UIDs. Three sources contain both
// names and UIDs. They are used in this order:
//
//   - The kubelet's Pods API (Kubernetes 1.37) lists names, UIDs, container ids and phases of
//     all pods.
//   - The kubelet's log links (/var/log/containers) lead from a container's id to the namespace,
//     the pod, its UID and the container's name.
//   - The kubelet's log directories (/var/log/pods) contain the namespace, the pod and its UID,
//     and the container's name if the pod has only one container.
//
// If the sources identify the pod but not the container, the process belongs to the pod.
//
// The package calls no Kubernetes API and holds no credentials. If all three sources are missing, the processes of pods
// remain unmapped. An exclusive allocation does not prove that a process on the GPU belongs to the holder, because a
// privileged process can use any GPU.
//
// The package names an owner only if the UID is well formed and the sources agree.
package podmapper
