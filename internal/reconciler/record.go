package reconciler

import (
	"context"
	"maps"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/gpuledger/gpuledger/internal/reconciler/nodes"
)

// record implements [nodes.Record] with the annotations of the Lease, while this replica holds the Lease.
type record struct {
	leases leaseClient
	lease  Lease
}

// newRecord returns nil if leader election is disabled, because then there is no Lease.
func newRecord(c cluster, l Lease) nodes.Record {
	if !l.Elect {
		return nil
	}
	return &record{leases: c.kube.Leases(l.Namespace), lease: l}
}

// Edit implements [nodes.Record]. It returns an error after this replica has lost the Lease.
func (r *record) Edit(ctx context.Context, edit func(map[string]string)) error {
	return editHeld(ctx, r.leases, r.lease, func(lease *coordinationv1.Lease) bool {
		before := maps.Clone(lease.Annotations)
		if lease.Annotations == nil {
			lease.Annotations = make(map[string]string)
		}
		edit(lease.Annotations)
		return !maps.Equal(before, lease.Annotations)
	})
}
