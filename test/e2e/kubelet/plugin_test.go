//go:build e2e

package kubelet_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	resource = "nvidia.com/gpu"
	// The device plugin sets this variable. It also configures the container runtime.
	devicesVariable = "NVIDIA_VISIBLE_DEVICES"
	endpoint        = "gpuledger-e2e.sock"
)

var gpus = []string{
	"GPU-5e000000-0000-4000-8000-000000000001",
	"GPU-5e000000-0000-4000-8000-000000000002",
	"GPU-5e000000-0000-4000-8000-000000000003",
	"GPU-5e000000-0000-4000-8000-000000000004",
}

type plugin struct {
	deviceplugin.UnimplementedDevicePluginServer
	server *grpc.Server
	// listed receives a value each time a kubelet has received the list of devices.
	listed chan struct{}
}

// A kubelet that starts has no registered plugins and removes their sockets, so the plugin must register again.
func (p *plugin) register(t *testing.T) {
	t.Helper()
	p.stop()
	socket := filepath.Join(deviceplugin.DevicePluginPath, endpoint)
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	check(t, err)
	p.server, p.listed = grpc.NewServer(), make(chan struct{}, 10)
	deviceplugin.RegisterDevicePluginServer(p.server, p)
	server := p.server
	go func() { _ = server.Serve(listener) }() // Serve returns after Stop

	conn, err := dial(deviceplugin.KubeletSocket)
	check(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = deviceplugin.NewRegistrationClient(conn).Register(ctx, &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: endpoint, ResourceName: resource,
	}, grpc.WaitForReady(true))
	check(t, err)
	<-p.listed
}

func (p *plugin) stop() {
	if p.server != nil {
		p.server.Stop()
	}
}

// GetDevicePluginOptions returns empty options, because the kubelet need not call the plugin's other methods.
func (p *plugin) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

// ListAndWatch lists the devices, which never change.
func (p *plugin) ListAndWatch(_ *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse]) error {
	list := &deviceplugin.ListAndWatchResponse{}
	for _, id := range gpus {
		list.Devices = append(list.Devices, &deviceplugin.Device{ID: id, Health: deviceplugin.Healthy})
	}
	if err := stream.Send(list); err != nil {
		return fmt.Errorf("send devices: %w", err)
	}
	p.listed <- struct{}{}
	<-stream.Context().Done()
	return nil
}

// Allocate sets each container's environment variable to the allocated devices.
func (p *plugin) Allocate(_ context.Context, request *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	answer := &deviceplugin.AllocateResponse{}
	for _, c := range request.GetContainerRequests() {
		answer.ContainerResponses = append(answer.ContainerResponses, &deviceplugin.ContainerAllocateResponse{
			Envs: map[string]string{devicesVariable: strings.Join(c.GetDevicesIds(), ",")},
		})
	}
	return answer, nil
}

// listPodResources does not use gpuledger's code.
func listPodResources() ([]*podresources.PodResources, error) {
	conn, err := dial(podResources)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	answer, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	return answer.GetPodResources(), err
}

func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
}
