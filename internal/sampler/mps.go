package sampler

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// mpsServer is the name of nvidia-cuda-mps-server, as truncated by the kernel. The server runs the
// work of MPS clients, so samples may name the server instead of a client.
const mpsServer = "nvidia-cuda-mps"

// passOn assigns the work of each MPS server to the clients of the server. If a server has
// clients, passOn removes the server from the processes. The function holds reports whether a pod
// holds a GPU.
func (who *processUsage) passOn(holds func(gpu.Owner) bool) {
	clients := slices.DeleteFunc(slices.Clone(who.present), func(g gpuProcess) bool { return !g.MPS })
	if len(clients) == 0 {
		return
	}
	who.present = slices.DeleteFunc(who.present, func(g gpuProcess) bool {
		return !g.MPS && len(clientsOf(g.Process, clients, holds)) > 0
	})
	activity := make([]ledger.Activity, 0, len(who.activity))
	for _, a := range who.activity {
		activity = append(activity, shareOut(a, clientsOf(a.Process, clients, holds))...)
	}
	who.activity = activity
}

// clientsOf returns the clients of an MPS server. For any other process, it returns no clients. The name does not
// prove that a process is a server, because any process can choose this name. Therefore, if a pod contains a server
// and clients, clientsOf assigns only the clients in this pod to the server. A server of the host, or of a pod
// without a GPU, serves the clients of other pods. For example, the pod with the device plugin's control daemon has
// no GPU.
func clientsOf(server *gpu.Process, clients []gpuProcess, holds func(gpu.Owner) bool) []gpuProcess {
	if server.Name != mpsServer {
		return nil
	}
	switch o := server.Owner; {
	case o.Kind == gpu.OwnerHost:
		return clients
	case o.Kind.HasAccount():
		ofPod := func(g gpuProcess) bool { return g.Owner.Group() == o.Group() }
		if slices.ContainsFunc(clients, ofPod) {
			return slices.DeleteFunc(slices.Clone(clients), func(g gpuProcess) bool { return !ofPod(g) })
		}
		if !holds(o) {
			return clients
		}
	}
	return nil
}

// shareOut divides the work of a server equally over the clients of the server. If the clients
// belong to several pods, the ledger divides the work by the allocations of these pods. If there
// are no clients, the process keeps its work.
func shareOut(a ledger.Activity, clients []gpuProcess) []ledger.Activity {
	n := time.Duration(len(clients))
	if n == 0 {
		return []ledger.Activity{a}
	}
	pod := clients[0].Owner.Group()
	served := slices.ContainsFunc(clients, func(g gpuProcess) bool { return g.Owner.Group() != pod })
	shares := make([]ledger.Activity, 0, n)
	for i, g := range clients {
		share := a
		share.Process, share.Served = g.Process, served
		share.Busy = a.Busy*time.Duration(i+1)/n - a.Busy*time.Duration(i)/n
		shares = append(shares, share)
	}
	return shares
}
