package workloads_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// FuzzPod checks the page and the events for any pod and claim. The page must be valid and must contain at most one
// info series. The events must be valid JSON.
func FuzzPod(f *testing.F) {
	for _, seed := range []any{gpuPod("p", "1", nil), secretive(), claiming("c"), ended(gpuPod("p", "1", nil), corev1.PodFailed, 1, metav1.Now().Time)} {
		pod, err := json.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		claim, err := json.Marshal(claimOf("c", exactly("r", "gpu.nvidia.com", 2)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(pod, claim)
	}
	f.Add([]byte(`{"metadata":{"uid":"\u0000\ufffd","ownerReferences":[{"controller":true}]},"spec":{"containers":[{"resources":{"requests":{"nvidia.com/gpu":"1e30"}}}]},"status":{"phase":"Failed"}}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, podJSON, claimJSON []byte) {
		var p corev1.Pod
		var c resourcev1.ResourceClaim
		if json.Unmarshal(podJSON, &p) != nil || json.Unmarshal(claimJSON, &c) != nil {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, []string{"-snapshots=log", "-pod-labels=app", "-pod-annotations=note"})
			w.lead()
			defer w.stop()
			// The tracker of the fake identifies objects by name and namespace, so the fuzzer must not change them.
			p.Namespace, p.Name, c.Namespace, c.Name = "team-a", "p", "team-a", "c"
			w.create("pods", &p)
			w.create("resourceclaims", &c)
			w.update("pods", next(&p))
			if got := w.page(info); len(got) > 1 {
				t.Errorf("one pod has %d infos:\n%s", len(got), strings.Join(got, "\n"))
			}
			w.newEvents()
			w.delete("pods", "p")
			w.page()
		})
	})
}

// FuzzOwners checks pods with any owner references. Reading the owners must end, every pod must have one workload, and
// every workload must be on the page once.
func FuzzOwners(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0})
	f.Add([]byte{0, 0, 1, 1, 2, 2})
	f.Add([]byte{255, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, parents []byte) {
		parents = parents[:min(len(parents), 60)]
		var all []runtime.Object
		owners := make([]*metav1.PartialObjectMetadata, len(parents))
		for i := range parents {
			k := kinds[i%len(kinds)]
			owners[i] = object(k.groupVersion, k.kind, "team-a", fmt.Sprintf("o%d", i), nil)
			if k.cluster {
				owners[i].Namespace = ""
			}
			all = append(all, owners[i], gpuPod(fmt.Sprintf("pod%d", i), "1", owners[i]))
		}
		for i, parent := range parents {
			if int(parent) < len(owners) {
				owners[i].OwnerReferences = ownedBy(owners[parent])
			}
			if parent%7 == 6 {
				owners[i].UID = types.UID(fmt.Sprint("other-", i))
			}
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil, all...)
			w.lead()
			defer w.stop()
			if got := len(w.page(info)); got != len(parents) {
				t.Errorf("%d of %d pods are shown", got, len(parents))
			}
			w.page() // this fails if an owner is listed twice
		})
	})
}
