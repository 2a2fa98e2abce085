package app

import (
	"encoding/json"
	"net/http"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
)

func inventoryHandler(latest func() *gpu.Snapshot) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := latest()
		if s == nil {
			http.Error(w, "not ready: nothing was read yet", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(inventory.New(s)) // an error here is the client's going away
	})
}
