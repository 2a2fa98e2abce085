package simnode_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	podsapi "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

type apiPod struct {
	namespace, name, uid, phase string
	containers                  map[string]string // ids by name
}

// decode returns the values of a protobuf message by field number.
func decode(t *testing.T, message []byte) map[protowire.Number][]string {
	t.Helper()
	out := make(map[protowire.Number][]string)
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 || kind != protowire.BytesType {
			t.Fatalf("tag of %q: number %d, type %d", message, number, kind)
		}
		message = message[n:]
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			t.Fatalf("field %d: %v", number, protowire.ParseError(n))
		}
		message = message[n:]
		out[number] = append(out[number], string(value))
	}
	return out
}

// decodePod decodes a core/v1 Pod from protobuf (k8s.io/api/core/v1/generated.proto).
func decodePod(t *testing.T, data []byte) apiPod {
	t.Helper()
	top := decode(t, data)
	meta, state := decode(t, []byte(top[1][0])), decode(t, []byte(top[3][0]))
	p := apiPod{namespace: meta[3][0], name: meta[1][0], uid: meta[5][0], phase: state[1][0], containers: make(map[string]string)}
	for _, c := range state[8] {
		one := decode(t, []byte(c))
		p.containers[one[1][0]] = one[8][0]
	}
	return p
}

// Every container has a log link, so the Pods API must list the containers that have links.
func TestPodsAPI(t *testing.T) {
	n := open(t, "timeslice")
	run(t, n, 0, time.Second, time.Second)
	client := podsapi.NewPodsClient(connect(t, flagOf(n, "--kubelet.pods-api-socket=")))
	list, err := client.ListPods(t.Context(), &podsapi.ListPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, data := range list.Pods {
		p := decodePod(t, data)
		if p.phase != "Running" {
			t.Errorf("pod %s is %s, want Running", p.name, p.phase)
		}
		for container, id := range p.containers {
			id, ok := strings.CutPrefix(id, "containerd://")
			if !ok {
				t.Errorf("container %s has the id %s", container, id)
			}
			link := p.name + "_" + p.namespace + "_" + container + "-" + id + ".log"
			got[link] = "/var/log/pods/" + p.namespace + "_" + p.name + "_" + p.uid + "/" + container + "/0.log"
		}
		one, err := client.GetPod(t.Context(), &podsapi.GetPodRequest{PodUID: p.uid})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(data, one.Pod); diff != "" {
			t.Errorf("pod %s (-listed +got):\n%s", p.name, diff)
		}
	}
	if diff := cmp.Diff(logLinks(t, n.Dir()), got); diff != "" {
		t.Errorf("containers (-log links +Pods API):\n%s", diff)
	}
	if _, err := client.GetPod(t.Context(), &podsapi.GetPodRequest{PodUID: "nobody"}); status.Code(err) != codes.NotFound {
		t.Errorf("GetPod of an unknown pod: %v", err)
	}
}

func logLinks(t *testing.T, node string) map[string]string {
	t.Helper()
	dir := filepath.Join(node, "log/containers")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	links := make(map[string]string)
	for _, e := range entries {
		if links[e.Name()], err = os.Readlink(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return links
}

// If the kubelet does not serve the Pods API, neither its socket nor the socket's directory must exist.
func TestNoPodsAPI(t *testing.T) {
	n := open(t, "mig")
	_, socket, _ := strings.Cut(flagOf(n, "--kubelet.pods-api-socket="), "=")
	if _, err := os.Stat(filepath.Dir(socket)); !os.IsNotExist(err) {
		t.Errorf("the directory of the socket: %v, want it missing", err)
	}
}

func flagOf(n *simnode.Node, name string) string {
	flags := n.Flags()
	return flags[slices.IndexFunc(flags, func(f string) bool { return strings.HasPrefix(f, name) })]
}
