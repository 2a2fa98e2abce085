package sampler

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// mpsServer is the name of nvidia-cuda-mps-server, as truncated by the kernel. The server runs the work of MPS clients,
// so a sample may name the server instead of a client.
const mpsServer = "nvidia-cuda-mps"

// passOn assigns the work of each MPS server to its clients, and removes servers with clients from the processes. holds
// reports whether a pod holds a GPU.
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

// clientsOf returns no clients if the process does not have the name of a server. Any process can have this name, so if
// a pod contains a server and clients, only these clients belong to the server. A server of the host, or of a pod
// without a GPU, serves the clients of other pods. An example is the pod of the device plugin's control daemon.
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

// shareOut divides the work of a server equally among its clients. If the clients belong to several pods, the ledger
// divides the work by allocations. If there are no clients, the process keeps its work.
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
