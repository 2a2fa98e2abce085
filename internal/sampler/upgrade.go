package sampler

import (
	"encoding/json"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// pod2 identifies a container in version 2 of the file. In version 3, other fields identify owners of all kinds.
type pod2 struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	PodUID    string `json:"pod_uid"`
	Container string `json:"container"`
}

func (p pod2) owner() gpu.Owner {
	return gpu.Owner{Kind: gpu.OwnerPod, Scope: p.Namespace, Name: p.Pod, UID: p.PodUID, Part: p.Container}
}

// The decoder leaves the owners of a record of version 2 empty, so upgrade sets them.
func (r *record) upgrade(line json.RawMessage) error {
	var old struct {
		Account pod2 `json:"account"`
		Book    struct {
			Base struct {
				Holders []struct{ Container pod2 } `json:"holders"`
			} `json:"base"`
		} `json:"book"`
	}
	if err := json.Unmarshal(line, &old); err != nil {
		return err
	}
	if r.Account != nil {
		r.Account.Owner = old.Account.owner()
	}
	for i, h := range old.Book.Base.Holders {
		r.Book.Base.Holders[i].Owner = h.Container.owner()
	}
	return nil
}
