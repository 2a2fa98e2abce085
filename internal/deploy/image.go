package deploy

import "github.com/gpuledger/gpuledger/internal/sidecar"

// Name is the name of the container, and of most objects.
const Name = sidecar.Name

// Every generated object has the labels in partOf. The commands that remove gpuledger find all objects by these labels.
var partOf = map[string]string{"app.kubernetes.io/part-of": Name}

// Image is the exporter's image without a tag. The manifests contain a version, because the digest is known only after
// the build of the release. Users can pin the digest.
const Image = "ghcr.io/gpuledger/gpuledger"

// Tag is the image tag in the manifests of this repository.
const Tag = ":v0.1.0"
