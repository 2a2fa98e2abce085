// Package podmapper answers two questions: which container owns this process,
// and which container was given which device?
//
// It asks three witnesses on the node and none outside it. A process's cgroup
// (/proc/<pid>/cgroup) names the pod's UID and the container's id. The kubelet's
// log links (/var/log/containers) lead from a container's id to namespace, pod
// and container names. The kubelet's pod-resources socket says which device ids
// a container holds, but knows no UIDs; the log links and the living processes
// supply them. No Kubernetes API is called and no credentials are held.
//
// What cannot be proved is left open: an owner is named only if its UID is well
// formed and the witnesses agree, and nothing is ever guessed.
package podmapper
