// Podsapi prints the response of the kubelet's Pods API as JSON: one pod per line for
// "podsapi list", one event per line, without end, for "podsapi watch". The API
// sends pods as bytes of core/v1; the module of the kubelet has their types, and
// the main module does not need them.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	core "k8s.io/api/core/v1"
	pods "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: podsapi list|watch SOCKET")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "podsapi:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, what, socket string) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := pods.NewPodsClient(conn)
	switch what {
	case "list":
		return list(ctx, client)
	case "watch":
		return watch(ctx, client)
	}
	return fmt.Errorf("%q is neither list nor watch", what)
}

func list(ctx context.Context, client pods.PodsClient) error {
	answer, err := client.ListPods(ctx, &pods.ListPodsRequest{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for _, data := range answer.GetPods() {
		var pod core.Pod
		if err := pod.Unmarshal(data); err != nil {
			return fmt.Errorf("read pod: %w", err)
		}
		if err := emit(pod); err != nil {
			return err
		}
	}
	return nil
}

// event is one line of a watch. Its pod is absent at the end of the initial list.
type event struct {
	Type string    `json:"type"`
	Pod  *core.Pod `json:"pod,omitempty"`
}

func watch(ctx context.Context, client pods.PodsClient) error {
	stream, err := client.WatchPods(ctx, &pods.WatchPodsRequest{})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	for {
		answer, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("watch pods: %w", err)
		}
		e := event{Type: answer.GetType().String()}
		if data := answer.GetPod(); data != nil {
			e.Pod = new(core.Pod)
			if err := e.Pod.Unmarshal(data); err != nil {
				return fmt.Errorf("read pod: %w", err)
			}
		}
		if err := emit(e); err != nil {
			return err
		}
	}
}

func emit(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }
