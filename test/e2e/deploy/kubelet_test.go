//go:build e2e

package deploy_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kubelet sets the status of the exporter's containers. A container with a new image gets a new id and is ready a
// second later. A container with the image "broken" is never ready. A container with the image "dying" becomes ready
// and then restarts repeatedly.
type kubelet struct {
	t        *testing.T
	together chan struct{} // closed when two containers with the tag "together" start at the same time
	once     sync.Once

	mu       sync.Mutex
	images   map[string]string // image of the container, by pod
	starting map[string]bool   // pods with a container that is not ready yet
	most     int               // maximum size of starting
}

// startKubelet runs until the test ends.
func startKubelet(t *testing.T, namespace string) *kubelet {
	t.Helper()
	k := &kubelet{t: t, images: make(map[string]string), starting: make(map[string]bool), together: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	w, err := world.Client.CoreV1().Pods(namespace).Watch(ctx, meta.ListOptions{})
	check(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*core.Pod)
			if ok && hasSidecar(pod) && k.begin(pod.Name, container(pod).Image) {
				running.Go(func() { k.start(ctx, pod, container(pod).Image) })
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		w.Stop()
		running.Wait()
	})
	return k
}

func (k *kubelet) start(ctx context.Context, pod *core.Pod, image string) {
	k.report(ctx, pod, image, 0, false)
	if strings.HasSuffix(image, "/broken") {
		return
	}
	moment := time.After(time.Second)
	if strings.HasSuffix(image, ":together") {
		moment = nil
	}
	select {
	case <-moment:
	case <-k.together:
	case <-ctx.Done():
		return
	}
	k.end(pod.Name)
	k.report(ctx, pod, image, 0, true)
	for restarts := 1; strings.HasSuffix(image, "/dying"); restarts++ {
		for _, ready := range []bool{false, true} {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return
			}
			if !k.has(pod.Name, image) {
				return
			}
			k.report(ctx, pod, image, restarts, ready)
		}
	}
}

func (k *kubelet) has(pod, image string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.images[pod] == image
}

func (k *kubelet) report(ctx context.Context, pod *core.Pod, image string, restarts int, ready bool) {
	id := fmt.Sprintf("%s-%s-%d", pod.Name, image[strings.LastIndexAny(image, "/:")+1:], restarts)
	patch := fmt.Appendf(nil, `{"status": {"containerStatuses": [
		{"name": "gpuledger", "image": %q, "imageID": "", "containerID": "test://%s", "ready": %t, "restartCount": %d}]}}`, image, id, ready, restarts)
	_, err := world.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, meta.PatchOptions{}, "status")
	if err != nil && ctx.Err() == nil {
		k.t.Errorf("set the status of a container: %v", err)
	}
}

// begin reports whether the image is new. A new image means that a new container starts.
func (k *kubelet) begin(pod, image string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.images[pod] == image {
		return false
	}
	k.images[pod], k.starting[pod] = image, true
	if strings.HasSuffix(image, ":together") && len(k.starting) == 2 {
		k.once.Do(func() { close(k.together) })
	}
	return true
}

func (k *kubelet) end(pod string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.most = max(k.most, len(k.starting))
	delete(k.starting, pod)
}

// settled reports whether the containers of both pods are ready. It resets the number of simultaneous starts.
func (k *kubelet) settled() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.most = 0
	return len(k.starting) == 0 && len(k.images) == 2
}

func (k *kubelet) mostAtOnce() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.most
}
