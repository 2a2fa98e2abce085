// Package podmapper answers two questions: which container owns this process,
// and which container was given which device?
//
// It reads sources on the node and none outside it. A process's cgroup
// (/proc/<pid>/cgroup) names the pod's UID and the container's id. The kubelet's
// pod-resources socket says which device ids a container holds, from device plugins
// and from DRA drivers, but knows no UIDs. In between stand, in this order:
//
//   - the kubelet's Pods API (Kubernetes 1.37), which knows names, UIDs, container
//     ids and phases of all pods;
//   - the kubelet's log links (/var/log/containers), which lead from a container's
//     id to namespace, pod, UID and container names;
//   - the kubelet's log directories (/var/log/pods), which know namespace, pod and
//     UID, and the container's name where a pod has only one.
//
// Where they know the pod and not the container, the process belongs to the pod.
//
// No Kubernetes API is called and no credentials are held. Where all three are
// missing the processes of pods stay unmapped: that one container holds the GPU
// which a process uses does not prove that the process is its, since whatever is
// privileged may use any GPU.
//
// What cannot be proved is left open: an owner is named only if its UID is well
// formed and the sources agree, and nothing is ever guessed.
package podmapper
