package injector

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
	"github.com/gpuledger/gpuledger/internal/reconciler/certificate"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
	"github.com/gpuledger/gpuledger/internal/sidecar"
)

const (
	checkEvery = time.Hour
	renewAgain = 10 * time.Second
	// fieldManager is the field manager that owns caBundle in the webhook's configuration.
	fieldManager = "gpuledger"
)

// Lead makes and renews the certificates until the context ends, and writes their authority into the webhook's
// configuration. Only the leader calls Lead.
func (i *Injector) Lead(ctx context.Context, watches, kube apiserver.Client, failures *watch.Failures) {
	if i.opts.Certificates != "" {
		return
	}
	var all sync.WaitGroup
	defer all.Wait()
	webhooks := watch.Informer(watches.MutatingWebhookConfigurations(), &admissionregistrationv1.MutatingWebhookConfiguration{}, watch.Named(sidecar.Name))
	failures.Follow(webhooks, watch.Webhooks)
	_, _ = webhooks.AddEventHandler(handler(func(w *admissionregistrationv1.MutatingWebhookConfiguration) {
		i.webhook.Store(w)
		i.signal()
	}))
	all.Go(func() { webhooks.RunWithContext(ctx) })
	logged := ""
	for ctx.Err() == nil {
		wait := checkEvery
		err := i.renew(ctx, kube)
		if err == nil {
			err = i.announce(ctx, kube)
		}
		switch {
		case err == nil:
			logged = ""
		case !apierrors.IsConflict(err): // after a conflict, an event with the newer object follows
			wait = renewAgain
			if err.Error() != logged && ctx.Err() == nil {
				logged = err.Error()
				i.log.Error("cannot renew the webhook's certificate, will retry", "err", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-i.changed:
		case <-time.After(wait):
		}
	}
}

// renew writes the Secret if its certificate expires soon. The API server rejects the write if the Secret has changed
// in the meantime.
func (i *Injector) renew(ctx context.Context, kube apiserver.Client) error {
	present := i.secret.Load()
	if present == nil {
		return nil // the Secret has not been read yet, or an administrator must create it
	}
	data, changed, err := certificate.Renew(present.Data, i.opts.host(), time.Now())
	if err != nil {
		return fmt.Errorf("secret %s: %w", present.Name, err)
	}
	if !changed {
		return nil
	}
	secret := present.DeepCopy()
	secret.Data = data
	if _, err := kube.Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update secret %s: %w", secret.Name, err)
	}
	i.log.Info("renewed the webhook's certificate", "secret", secret.Name)
	return nil
}

// trust contains the fields of a MutatingWebhookConfiguration that this program sets.
type trust struct {
	metav1.PartialObjectMetadata
	Webhooks []webhook `json:"webhooks"`
}

type webhook struct {
	Name         string       `json:"name"`
	ClientConfig clientConfig `json:"clientConfig"`
}

type clientConfig struct {
	CABundle []byte `json:"caBundle"`
}

// announce writes the authority into the webhook's configuration. It does not create a deleted configuration, because
// the reconciler's role does not permit this.
func (i *Injector) announce(ctx context.Context, kube apiserver.Client) error {
	secret, present := i.secret.Load(), i.webhook.Load()
	if secret == nil || present == nil || len(secret.Data[certificate.Server]) == 0 {
		return nil
	}
	authority := secret.Data[certificate.Authority]
	other := func(w admissionregistrationv1.MutatingWebhook) bool {
		return !bytes.Equal(w.ClientConfig.CABundle, authority)
	}
	if !slices.ContainsFunc(present.Webhooks, other) {
		return nil
	}
	change := trust{PartialObjectMetadata: metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: present.Name, UID: present.UID},
	}}
	for _, w := range present.Webhooks {
		change.Webhooks = append(change.Webhooks, webhook{w.Name, clientConfig{authority}})
	}
	if err := apiserver.Apply(ctx, kube.MutatingWebhookConfigurations(), present.Name, change, fieldManager); err != nil {
		return fmt.Errorf("apply caBundle of the MutatingWebhookConfiguration %s: %w", present.Name, err)
	}
	i.log.Info("wrote the CA certificate into caBundle of the webhook's configuration", "webhook", present.Name)
	return nil
}
