package nodes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/nodelabel"
	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
)

const pageSize = 500

// Cleanup removes this program's labels, annotations and conditions, with any prefix, from every Node. It changes
// nothing else.
func Cleanup(ctx context.Context, kube apiserver.Client, opts Options, log *slog.Logger) error {
	nodes, err := withOurs(ctx, kube)
	if err != nil {
		return err
	}
	limit := rate.NewLimiter(rate.Limit(opts.Writes), 1)
	var errs []error
	for _, n := range nodes {
		if err := limit.Wait(ctx); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if opts.DryRun {
			log.Info("would clean node", "node", n.Name)
			continue
		}
		if err := clean(ctx, kube, n); err != nil {
			errs = append(errs, fmt.Errorf("clean node %s: %w", n.Name, err))
		}
	}
	if !opts.DryRun {
		log.Info("cleaned up", "nodes", len(nodes)-len(errs), "failed", len(errs))
	}
	return errors.Join(errs...)
}

func clean(ctx context.Context, kube apiserver.Client, n metav1.ObjectMeta) error {
	if slices.ContainsFunc(n.ManagedFields, setsCondition) {
		if err := apiserver.Apply(ctx, kube.Nodes(), n.Name, fieldsOf(n), manager, "status"); err != nil {
			return err
		}
	}
	if ownedBy(n.ManagedFields).empty() {
		return nil
	}
	return apply(ctx, kube, n, nodelabel.Desired{})
}

// withOurs returns the Nodes that have labels, annotations or a condition from this program. It reads all pages of the
// list before the caller writes a Node, because the API server serves the pages of a list only for a few minutes.
func withOurs(ctx context.Context, kube apiserver.Client) ([]metav1.ObjectMeta, error) {
	var ours []metav1.ObjectMeta
	for list := (metav1.ListOptions{Limit: pageSize}); ; {
		nodes, err := kube.Nodes().List(ctx, list)
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		for i := range nodes.Items {
			if n := &nodes.Items[i]; !ownedBy(n.ManagedFields).empty() || slices.ContainsFunc(n.ManagedFields, setsCondition) {
				ours = append(ours, metav1.ObjectMeta{Name: n.Name, UID: n.UID, ManagedFields: slices.DeleteFunc(n.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager != manager })})
			}
		}
		if list.Continue = nodes.Continue; list.Continue == "" {
			return ours, nil
		}
	}
}
