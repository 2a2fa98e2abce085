package nodes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuledger/gpuledger/internal/nodelabel"
)

// pageSize is how many Nodes are listed at once.
const pageSize = 500

// Cleanup removes from every Node what this program ever applied, whatever the prefix
// was then, and touches nothing else.
func Cleanup(ctx context.Context, kube kubernetes.Interface, opts Options, log *slog.Logger) error {
	t := &term{opts: opts, kube: kube}
	limit := rate.NewLimiter(rate.Limit(opts.Writes), 1)
	var errs []error
	cleaned := 0
	for list := (metav1.ListOptions{Limit: pageSize}); ; {
		nodes, err := kube.CoreV1().Nodes().List(ctx, list)
		if err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		for i := range nodes.Items {
			n := &nodes.Items[i]
			if ownedBy(n, isOurs).empty() {
				continue
			}
			if err := limit.Wait(ctx); err != nil {
				return errors.Join(append(errs, err)...)
			}
			if err := t.clean(ctx, n, log); err != nil {
				errs = append(errs, fmt.Errorf("clean node %s: %w", n.Name, err))
				continue
			}
			cleaned++
		}
		if list.Continue = nodes.Continue; list.Continue == "" {
			log.Info("cleaned up", "nodes", cleaned, "failed", len(errs))
			return errors.Join(errs...)
		}
	}
}

func (t *term) clean(ctx context.Context, n *corev1.Node, log *slog.Logger) error {
	if t.opts.DryRun {
		log.Info("would clean the node", "node", n.Name)
		return nil
	}
	return t.apply(ctx, n, nodelabel.Desired{})
}
