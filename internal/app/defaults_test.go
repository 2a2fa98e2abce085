package app_test

import (
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/app"
)

func TestAdapt(t *testing.T) {
	const socket = "/var/lib/kubelet/pod-resources/kubelet.sock"
	for _, tt := range []struct {
		name        string
		flags       string
		environment map[string]string
		uid         int
		// owners contains the paths that exist, with the user ID of each path's owner.
		owners map[string]int
		want   [3]string // values of socket, node and state
	}{
		{name: "workstation, root", want: [3]string{"", "desk", "/run/gpuledger"}},
		{
			name: "workstation, user", uid: 1000, environment: map[string]string{"XDG_RUNTIME_DIR": "/run/user/1000"},
			want: [3]string{"", "desk", "/run/user/1000/gpuledger"},
		},
		{
			name: "user on a machine with the service", uid: 1000, environment: map[string]string{"XDG_RUNTIME_DIR": "/run/user/1000"},
			owners: map[string]int{"/run/gpuledger": 0}, want: [3]string{"", "desk", "/run/user/1000/gpuledger"},
		},
		{
			name: "service of a user", uid: 990, environment: map[string]string{"XDG_RUNTIME_DIR": "/run/user/990"},
			owners: map[string]int{"/run/gpuledger": 990}, want: [3]string{"", "desk", "/run/gpuledger"},
		},
		{name: "user without a session", uid: 1000, want: [3]string{"", "desk", "/run/gpuledger"}},
		{name: "user with a relative folder", uid: 1000, environment: map[string]string{"XDG_RUNTIME_DIR": "run"}, want: [3]string{"", "desk", "/run/gpuledger"}},
		{name: "root with a session", environment: map[string]string{"XDG_RUNTIME_DIR": "/run/user/0"}, want: [3]string{"", "desk", "/run/gpuledger"}},
		{
			name: "in a pod", environment: map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1", "NODE_NAME": "gpu-1"},
			want: [3]string{socket, "gpu-1", "/run/gpuledger"},
		},
		{
			name: "in a pod without a node name", environment: map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
			want: [3]string{socket, "", "/run/gpuledger"},
		},
		{name: "beside a kubelet", owners: map[string]int{"/var/lib/kubelet": 0}, want: [3]string{socket, "", "/run/gpuledger"}},
		{
			name: "Kubernetes turned off", flags: "--kubelet.pod-resources-socket=", owners: map[string]int{"/var/lib/kubelet": 0},
			want: [3]string{"", "desk", "/run/gpuledger"},
		},
		{
			name: "all set", flags: "--kubelet.pod-resources-socket=/a --node.name=b --state.path=/c", uid: 1000,
			environment: map[string]string{"XDG_RUNTIME_DIR": "/run/user/1000"}, want: [3]string{"/a", "b", "/c"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			getenv := func(name string) string { return tt.environment[name] }
			cfg, err := app.Parse(strings.Fields(tt.flags), getenv)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Adapt(app.Machine{Getenv: getenv, UID: tt.uid, Hostname: "desk", Owner: func(path string) (int, bool) {
				uid, exists := tt.owners[path]
				return uid, exists
			}})
			if got := [3]string{cfg.PodResources, cfg.NodeName, cfg.StatePath}; got != tt.want {
				t.Errorf("socket, node and state %q, want %q", got, tt.want)
			}
		})
	}
}
