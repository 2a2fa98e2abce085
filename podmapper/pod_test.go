package podmapper

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gpuledger/gpuledger/internal/proc"
)

// recorded returns a Pod from a file. The Pod was marshalled with k8s.io/api v0.37.2.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "pods", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestParsePod(t *testing.T) {
	status := func(name, id string, terminated bool) containerStatus {
		return containerStatus{name: name, id: id, terminated: terminated}
	}
	running := pod{
		podName: podName{"ml-team", "train-0"}, uid: uid, phase: "Running",
		containers: []string{"trainer", "sidecar", "fetch", "proxy", "debug"},
		statuses: []containerStatus{
			status("trainer", id, false), status("sidecar", otherID, false),
			status("fetch", strings.Repeat("a", 64), true), status("proxy", strings.Repeat("b", 64), false),
			status("debug", "", false),
		},
		extended: []extendedResource{{"trainer", "nvidia.com/gpu"}}, claim: "train-0-extended-resources-x7k2p",
	}
	ended := running
	ended.phase, ended.deleted = "Succeeded", true
	ended.statuses = []containerStatus{
		status("trainer", id, true), status("sidecar", otherID, true),
		running.statuses[2], running.statuses[3], running.statuses[4],
	}
	for file, want := range map[string]pod{"running.pb": running, "ended.pb": ended} {
		t.Run(file, func(t *testing.T) {
			got, err := parsePod(recorded(t, file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(pod{}, podName{}, containerStatus{}, extendedResource{})); diff != "" {
				t.Errorf("parsePod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodAlive(t *testing.T) {
	up, down := containerStatus{name: "a"}, containerStatus{name: "b", terminated: true}
	tests := []struct {
		name string
		pod  pod
		want bool
	}{
		{"pending", pod{phase: "Pending"}, true},
		{"running", pod{phase: "Running", statuses: []containerStatus{up}}, true},
		{"between two runs", pod{phase: "Running", statuses: []containerStatus{down}}, true},
		{"no phase", pod{}, true},
		{"being deleted", pod{phase: "Running", deleted: true, statuses: []containerStatus{down, up}}, true},
		{"deleted before its start", pod{phase: "Pending", deleted: true}, true},
		{"deleted and ended", pod{phase: "Running", deleted: true, statuses: []containerStatus{down, down}}, false},
		{"succeeded", pod{phase: "Succeeded"}, false},
		{"failed, with a container that hangs", pod{phase: "Failed", statuses: []containerStatus{up}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.pod.alive(); got != tt.want {
				t.Errorf("alive = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestResourceOf(t *testing.T) {
	p := pod{claim: "extended", extended: []extendedResource{
		{"one", "nvidia.com/gpu"}, {"one", "nvidia.com/gpu"}, {"two", "nvidia.com/gpu"}, {"two", "nvidia.com/mig-1g.10gb"},
	}}
	tests := []struct{ name, container, claim, want string }{
		{"one resource", "one", "extended", "nvidia.com/gpu"},
		{"two resources", "two", "extended", ""},
		{"another container", "three", "extended", ""},
		{"any container", "", "extended", ""},
		{"another claim", "one", "other", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := p.resourceOf(tt.container, tt.claim); got != tt.want {
				t.Errorf("resourceOf(%q, %q) = %q, want %q", tt.container, tt.claim, got, tt.want)
			}
		})
	}
}

func FuzzPod(f *testing.F) {
	// The seeds are small, because the fuzzer would need a minute to minimise a large input.
	meta := "\x0a\x01p\x1a\x01n\x2a\x20" + hash
	f.Add([]byte("\x0a" + string(rune(len(meta))) + meta))
	f.Add([]byte("\x0a" + string(rune(len(meta))) + meta + "\x12\x05\x12\x03\x0a\x01c\x1a\x05\x42\x03\x0a\x01c"))
	f.Add([]byte("\x0a\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parsePod(data)
		if err != nil {
			if diff := cmp.Diff(pod{}, p, cmp.AllowUnexported(pod{}, podName{}, containerStatus{}, extendedResource{})); diff != "" {
				t.Errorf("parsePod with an error (-want +got):\n%s", diff)
			}
			return
		}
		for _, s := range p.statuses {
			if s.id != "" && !proc.IsContainerID(s.id) {
				t.Errorf("container id %q is not well formed", s.id)
			}
		}
	})
}
