package simnode_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	return v1.NewPodResourcesListerClient(connect(t, n.Flags()[i]))
}

func connect(t *testing.T, flag string) *grpc.ClientConn {
	t.Helper()
	_, socket, _ := strings.Cut(flag, "=")
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

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
					t.Errorf("pod %s has %v, want one entry per device", p.Name, d)
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
		t.Error("all responses have the same order of devices")
	}
}

func TestKubeletGet(t *testing.T) {
	kubelet := dial(t, open(t, "gb200"))
	got, err := kubelet.Get(t.Context(), &v1.GetPodResourcesRequest{PodNamespace: "research", PodName: "moe-train-0"})
	if err != nil {
		t.Fatal(err)
	}
	if c := got.PodResources.Containers; len(c) != 1 || len(c[0].Devices) != 2 {
		t.Errorf("moe-train-0 has the devices %v", c)
	}
	_, err = kubelet.Get(t.Context(), &v1.GetPodResourcesRequest{PodNamespace: "research", PodName: "nobody"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("Get of an unknown pod: %v", err)
	}
}

// Together, the scenarios use every way to allocate a GPU or a part of it. The expected entries number the GPUs in the
// order of the scenario.
func TestKubeletNames(t *testing.T) {
	tests := []struct {
		scenario string
		want     map[string][]string // devices by pod
	}{
		{"timeslice", map[string][]string{
			"notebook-ada": {"nvidia.com/gpu.shared GPU#0::0"},
			"notebook-bob": {"nvidia.com/gpu.shared GPU#0::1"},
			"tuner":        {"nvidia.com/gpu.shared GPU#0::2", "nvidia.com/gpu.shared GPU#0::3"},
			"evaluator":    {"nvidia.com/gpu.shared GPU#0::5"},
			"twin-a":       {"nvidia.com/gpu.shared GPU#1::4"},
			"twin-b":       {"nvidia.com/gpu.shared GPU#1::0"},
		}},
		{"mps", map[string][]string{
			"embed-0":  {"nvidia.com/gpu.shared GPU#0::0"},
			"embed-1":  {"nvidia.com/gpu.shared GPU#0::7"},
			"rerank-0": {"nvidia.com/gpu.shared GPU#0::3", "nvidia.com/gpu.shared GPU#0::4"},
		}},
		{"mig", map[string][]string{
			"pair-0":     {"nvidia.com/mig-3g.40gb MIG#0"},
			"small-0":    {"nvidia.com/mig-2g.20gb MIG#1"},
			"reserved-0": {"nvidia.com/mig-1g.10gb MIG#2"},
			"whole-0":    {"nvidia.com/gpu GPU#1"},
		}},
		{"dra", map[string][]string{
			"trainer-0": {"team-a/trainer-0-gpu-7ktzd gpu.nvidia.com dra-0 gpu-0 1"},
			"left-0":    {"team-a/shared-gpu gpu.nvidia.com dra-0 gpu-1 1"},
			"right-0":   {"team-a/shared-gpu gpu.nvidia.com dra-0 gpu-1 1"},
			"slices-0": {
				"team-a/slices-0-mig-q4xwn gpu.nvidia.com dra-0 gpu-2-mig-1g10gb-19-6 2",
				"team-a/slices-0-mig-q4xwn gpu.nvidia.com dra-0 gpu-2-mig-3g40gb-9-0 1",
			},
			"plain-0": {"team-b/plain-0-extended-resources-m8c2v gpu.nvidia.com dra-0 gpu-3 1"},
			"diag-0": {
				"monitoring/diag-0-all-gpus-2vhlp gpu.nvidia.com dra-0 gpu-0 1",
				"monitoring/diag-0-all-gpus-2vhlp gpu.nvidia.com dra-0 gpu-1 2",
				"monitoring/diag-0-all-gpus-2vhlp gpu.nvidia.com dra-0 gpu-3 3",
			},
		}},
		{"hog", map[string][]string{
			"victim-0": {"nvidia.com/gpu GPU#0"}, "hog-0": {"nvidia.com/gpu GPU#1"}, "forgotten-0": {"nvidia.com/gpu GPU#2"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.scenario, func(t *testing.T) {
			n := open(t, tt.scenario)
			if diff := cmp.Diff(tt.want, devices(t, n)); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}

// A device from a device plugin is described by its resource and id. A DRA device is described by its claim, driver,
// pool, name and number of CDI devices.
func devices(t *testing.T, n *simnode.Node) map[string][]string {
	t.Helper()
	list, err := dial(t, n).List(t.Context(), &v1.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	short := shortNames(driverState(t, n))
	held := make(map[string][]string)
	for _, p := range list.PodResources {
		for _, c := range p.Containers {
			for _, d := range c.Devices {
				held[p.Name] = append(held[p.Name], d.ResourceName+" "+short.Replace(strings.Join(d.DeviceIds, ",")))
			}
			for _, d := range c.DynamicResources {
				for _, r := range d.ClaimResources {
					held[p.Name] = append(held[p.Name], fmt.Sprintf("%s/%s %s %s %s %d",
						d.ClaimNamespace, d.ClaimName, r.DriverName, r.PoolName, r.DeviceName, len(r.CdiDevices)))
					if cdi := r.CdiDevices[len(r.CdiDevices)-1].Name; !cdiName.MatchString(cdi) || !strings.HasSuffix(cdi, "-"+r.DeviceName) {
						t.Errorf("%s has the CDI device %s", r.DeviceName, cdi)
					}
				}
			}
		}
	}
	for _, d := range held {
		slices.Sort(d)
	}
	return held
}

var cdiName = regexp.MustCompile(`^k8s\.gpu\.nvidia\.com/claim=[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-gpu-[0-9]`)

// shortNames replaces the UUIDs of GPUs and MIG devices by GPU#n and MIG#n.
func shortNames(state map[string][]fields) *strings.Replacer {
	var pairs []string
	for i, g := range state["gpu"] {
		pairs = append(pairs, g["uuid"], "GPU#"+strconv.Itoa(i))
	}
	for i, d := range state["instance"] {
		pairs = append(pairs, d["uuid"], "MIG#"+strconv.Itoa(i))
	}
	return strings.NewReplacer(pairs...)
}

func TestKubeletAllocatable(t *testing.T) {
	for scenario, want := range map[string]map[string]int{
		"churn":     {"nvidia.com/gpu": 4},
		"timeslice": {"nvidia.com/gpu.shared": 12},
		"mig":       {"nvidia.com/gpu": 1, "nvidia.com/mig-3g.40gb": 1, "nvidia.com/mig-2g.20gb": 1, "nvidia.com/mig-1g.10gb": 1},
		"dra":       {},
	} {
		t.Run(scenario, func(t *testing.T) {
			answer, err := dial(t, open(t, scenario)).GetAllocatableResources(t.Context(), &v1.AllocatableResourcesRequest{})
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]int)
			for _, d := range answer.Devices {
				got[d.ResourceName] += len(d.DeviceIds)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("allocatable (-want +got):\n%s", diff)
			}
		})
	}
}
