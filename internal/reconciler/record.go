package reconciler

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/gpuledger/gpuledger/internal/reconciler/nodes"

	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// record implements [nodes.Record] with the annotations of the Lease, while this replica holds the Lease.
type record struct {
	leases coordinationclient.LeaseInterface
	lease  Lease
}

// newRecord returns nil if leader election is disabled, because then there is no Lease.
func newRecord(c cluster, l Lease) nodes.Record {
	if !l.Elect {
		return nil
	}
	return &record{leases: c.kube.CoordinationV1().Leases(l.Namespace), lease: l}
}

// Edit implements [nodes.Record]. It returns an error after this replica has lost the Lease.
func (r *record) Edit(ctx context.Context, edit func(map[string]string)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := r.leases.Get(ctx, r.lease.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if holder := lease.Spec.HolderIdentity; holder == nil || *holder != r.lease.Identity {
			return fmt.Errorf("lease %s/%s is not held by this replica", r.lease.Namespace, r.lease.Name)
		}
		before := maps.Clone(lease.Annotations)
		if lease.Annotations == nil {
			lease.Annotations = make(map[string]string)
		}
		edit(lease.Annotations)
		if maps.Equal(before, lease.Annotations) {
			return nil
		}
		_, err = r.leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}
