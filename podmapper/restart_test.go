package podmapper_test

import (
	"testing"
	"time"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// TestAllHoldersGone checks a response that contains none of the pods that held GPUs before. For a moment after its
// start, a kubelet lists no pods, or only its static pods. The mapper must ignore the first such response, but must
// accept the next response.
func TestAllHoldersGone(t *testing.T) {
	proxy := &podresources.PodResources{
		Namespace: "kube-system", Name: "kube-proxy-node",
		Containers: []*podresources.ContainerResources{{Name: "kube-proxy"}},
	}
	for name, answer := range map[string][]*podresources.PodResources{"empty": nil, "static pods only": pods(proxy)} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.link(trainer, id)
			n.start(10, 5, "python3", cgroupPath(trainer, id))
			n.answer(proxy, holder(trainer, "", gpuA))
			n.poll()
			n.answer(answer...)
			n.poll()
			n.wantHeld(exclusive(gpuA, trainer, true))
			n.poll()
			n.wantHeld()
			n.answer(proxy, holder(trainer, "", gpuA))
			n.poll()
			n.wantHeld(exclusive(gpuA, trainer, true))
		})
	}
}

// TestRecreatedPodAfterAnEmptyAnswer checks a new pod that has the name of an earlier pod with GPUs. The mapper must
// not use an ignored response to identify the new pod.
func TestRecreatedPodAfterAnEmptyAnswer(t *testing.T) {
	n := newNode(t)
	link := n.link(trainer, id)
	n.start(10, 5, "python3", cgroupPath(trainer, id))
	n.answer(holder(trainer, "", gpuA))
	n.poll()

	n.exit(10)
	n.remove(link)
	n.link(reborn, otherID)
	n.start(11, 9, "python3", cgroupPath(reborn, otherID))
	n.answer()
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, false))
	n.answer(holder(reborn, "", gpuB))
	n.poll()
	n.wantHeld(exclusive(gpuB, reborn, true))
}

// TestPodsAPIAndAnEmptyAnswer checks an empty response to the method List. The mapper must ignore it, even if the
// previous call of List failed while the Pods API responded.
func TestPodsAPIAndAnEmptyAnswer(t *testing.T) {
	n := newNode(t)
	api := n.servePods(apiPod(trainer, "Running", nil))
	k := n.serve(holds(holder(trainer, "", gpuA)))
	n.poll()
	k.stop()
	api.now(apiPod(reborn, "Running", nil))
	n.pollFails("list pod resources")
	n.answer()
	n.poll()
	n.wantHeld(exclusive(gpuA, trainer, false))
	n.answer(holder(reborn, "", gpuB))
	n.poll()
	n.wantHeld(exclusive(gpuB, reborn, true))
}

// TestEmptyAnswerIsNoAnswer checks that an ignored response does not extend the validity of the previous response.
func TestEmptyAnswerIsNoAnswer(t *testing.T) {
	n := newNode(t)
	n.answer(holder(trainer, "", gpuA))
	n.poll()
	n.pass(31 * time.Second)
	n.answer()
	n.poll()
	n.wantUnknown()
}
