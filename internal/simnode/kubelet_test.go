package simnode_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// dial connects to a node's kubelet as the exporter does.
func dial(t *testing.T, n *simnode.Node) v1.PodResourcesListerClient {
	t.Helper()
	i := slices.IndexFunc(n.Flags(), func(f string) bool { return strings.HasPrefix(f, "--kubelet.pod-resources-socket=") })
	_, socket, _ := strings.Cut(n.Flags()[i], "=")
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return v1.NewPodResourcesListerClient(conn)
}

// holders lists the pods with GPUs, and their devices in the order of the answer.
func holders(t *testing.T, kubelet v1.PodResourcesListerClient) map[string][]string {
	t.Helper()
	list, err := kubelet.List(t.Context(), &v1.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	held := make(map[string][]string)
	for _, p := range list.PodResources {
		for _, c := range p.Containers {
			for _, d := range c.Devices {
				if d.ResourceName != "nvidia.com/gpu" || len(d.DeviceIds) != 1 {
					t.Errorf("pod %s has %v, want an entry per device", p.Name, d)
				}
				held[p.Name] = append(held[p.Name], d.DeviceIds...)
			}
		}
	}
	return held
}

func TestKubeletList(t *testing.T) {
	kubelet := dial(t, open(t, "dgx-h100"))
	want := map[string]int{"pretrain-0": 4, "finetune-7b": 2, "chat-0": 1}
	orders := make(map[string]bool)
	for range 20 {
		got := holders(t, kubelet)
		if len(got) != len(want) {
			t.Fatalf("pods with GPUs: %v", got)
		}
		for pod, n := range want {
			if len(got[pod]) != n {
				t.Errorf("pod %s holds %v, want %d GPUs", pod, got[pod], n)
			}
		}
		orders[strings.Join(got["pretrain-0"], " ")] = true
	}
	if len(orders) < 2 {
		t.Error("the order of devices never changed")
	}
}

func TestKubeletGet(t *testing.T) {
	kubelet := dial(t, open(t, "gb200"))
	got, err := kubelet.Get(t.Context(), &v1.GetPodResourcesRequest{PodNamespace: "research", PodName: "moe-train-0"})
	if err != nil {
		t.Fatal(err)
	}
	if c := got.PodResources.Containers; len(c) != 1 || len(c[0].Devices) != 2 {
		t.Errorf("moe-train-0 has %v", c)
	}
	_, err = kubelet.Get(t.Context(), &v1.GetPodResourcesRequest{PodNamespace: "research", PodName: "nobody"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("Get of an unknown pod: %v", err)
	}
}

func TestKubeletAllocatable(t *testing.T) {
	kubelet := dial(t, open(t, "churn"))
	got, err := kubelet.GetAllocatableResources(t.Context(), &v1.AllocatableResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Devices) != 4 {
		t.Errorf("%d devices, want 4", len(got.Devices))
	}
}
