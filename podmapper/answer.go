package podmapper

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/internal/stage"
)

// These are the limits for one response of the kubelet. The number of containers, devices and claims is limited too. An
// element with a few bytes in the response can need hundreds of bytes in memory. A kubelet with 500 pods and 1,000
// devices uses less than a tenth of each limit. A response that exceeds a limit is rejected as a whole, because a pod
// that is missing from a partial list would count as ended.
const (
	maxAnswer = 16 << 20 // maximum size of a response in bytes
	// maxPod is the maximum size of one pod in the Pods API, in bytes. etcd does not store larger objects.
	maxPod = 2 << 20
	// maxListed is the maximum size of one pod in the pod-resources API, in bytes. A pod with 4,000 devices does not
	// exceed it.
	maxListed = 512 << 10
	// maxParts is the maximum number of parts in a response. Each container, device and claim is one part. Each pod
	// adds podParts parts.
	maxParts = 50_000
	podParts = 10
	// maxDevices is the maximum number of GPUs, partitions and replicas that all pods hold.
	maxDevices = 8192
)

// maxHeaders is the maximum size of a response's header and trailer, in bytes.
const maxHeaders = 64 << 10

type parts int

func (p *parts) add(n int) error {
	if *p += parts(n); *p > maxParts {
		return fmt.Errorf("more than %d pods, containers and devices: %w", maxParts, stage.ErrOversized)
	}
	return nil
}

// codec decodes one pod after another from gRPC's receive buffers, so that the response is never copied as a whole.
type codec struct {
	encoding.CodecV2
	limit uint64 // maximum size of one pod, in bytes
	visit func(pod []byte) error
	err   error // last error from Unmarshal, which is stored because gRPC does not wrap it
}

// Unmarshal decodes a ListPodResourcesResponse or a ListPodsResponse, in which field 1 contains the pods. If a pod
// cannot be read, the whole response is rejected, because the missing pod would count as ended.
func (c *codec) Unmarshal(data mem.BufferSlice, _ any) error {
	r := data.Reader()
	defer r.Close()
	var pod []byte
	for r.Remaining() > 0 && c.err == nil {
		pod, c.err = c.next(r, pod)
	}
	return c.err
}

// next reads the next field of the response into the buffer. It returns the buffer, which the caller passes to the next
// call.
func (c *codec) next(r *mem.Reader, buffer []byte) ([]byte, error) {
	tag, err := binary.ReadUvarint(r)
	if err != nil {
		return buffer, fmt.Errorf("decode response: %w", err)
	}
	if n, kind := protowire.DecodeTag(tag); n != 1 || kind != protowire.BytesType {
		return buffer, fmt.Errorf("decode response: unknown field %d of type %d", n, kind)
	}
	size, err := binary.ReadUvarint(r)
	switch {
	case err != nil:
		return buffer, fmt.Errorf("decode response: %w", err)
	case size > c.limit:
		return buffer, fmt.Errorf("pod of %d bytes exceeds the limit of %d bytes: %w", size, c.limit, stage.ErrOversized)
	}
	buffer = slices.Grow(buffer[:0], int(size))[:size]
	if _, err := io.ReadFull(r, buffer); err != nil {
		return buffer, fmt.Errorf("decode response: %w", err)
	}
	if err := c.visit(buffer); err != nil {
		return buffer, fmt.Errorf("decode pod: %w", err)
	}
	return buffer, nil
}

func (p *parts) readListed(data []byte) (*podresources.PodResources, error) {
	pod := new(podresources.PodResources)
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, pod); err != nil {
		return nil, err
	}
	pod.CpuIds, pod.Memory = nil, nil
	n := podParts + len(pod.GetContainers())
	for _, c := range pod.GetContainers() {
		c.CpuIds, c.Memory = nil, nil
		n += len(c.GetDevices()) + len(c.GetDynamicResources())
		for _, d := range c.GetDevices() {
			d.Topology = nil
			n += len(d.GetDeviceIds())
		}
		for _, claim := range c.GetDynamicResources() {
			for _, r := range claim.GetClaimResources() {
				n += 1 + len(r.GetCdiDevices())
			}
		}
	}
	return pod, p.add(n)
}

func (p *parts) read(data []byte) (pod, error) {
	pod, err := parsePod(data)
	if err != nil {
		return pod, err
	}
	return pod, p.add(podParts + len(pod.containers) + len(pod.statuses) + len(pod.extended))
}
