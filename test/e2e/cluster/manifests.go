//go:build e2e

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// Apply applies all objects in the YAML files of a folder as an administrator. It skips kustomization.yaml.
func (c *Cluster) Apply(ctx context.Context, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("no manifests in %s", folder))
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		if err := c.ApplyFile(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

// ApplyFile applies every object of a YAML file, as an administrator.
func (c *Cluster) ApplyFile(ctx context.Context, file string) error {
	return c.each(file, func(client dynamic.ResourceInterface, object *unstructured.Unstructured) error {
		_, err := client.Apply(ctx, object.GetName(), object, meta.ApplyOptions{FieldManager: "e2e", Force: true})
		return err
	})
}

// DeleteFile deletes every object of a YAML file, as an administrator.
func (c *Cluster) DeleteFile(ctx context.Context, file string) error {
	return c.each(file, func(client dynamic.ResourceInterface, object *unstructured.Unstructured) error {
		return client.Delete(ctx, object.GetName(), meta.DeleteOptions{})
	})
}

func (c *Cluster) each(file string, do func(dynamic.ResourceInterface, *unstructured.Unstructured) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	documents := yaml.NewYAMLReader(bufio.NewReader(f))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		object := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(document, &object.Object)
		}
		if err == nil && object.Object == nil {
			continue // only a comment
		}
		var client dynamic.ResourceInterface
		if err == nil {
			client, err = c.clientFor(object)
		}
		if err == nil {
			err = do(client, object)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
}

func (c *Cluster) clientFor(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Client.Discovery()))
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(c.Admin)
	if err != nil {
		return nil, err
	}
	return client.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
}
