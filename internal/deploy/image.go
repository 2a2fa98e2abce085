package deploy

import "github.com/gpuledger/gpuledger/internal/sidecar"

// Name is the name of the exporter's container, and the name of most objects in the manifests.
const Name = sidecar.Name

// Every generated object has these labels. The commands that remove gpuledger select the objects by these labels.
var partOf = map[string]string{"app.kubernetes.io/part-of": Name}

// Image is the exporter's image without a tag. The manifests contain a tag and not a digest, because the digest is
// known only after the build of the release. Users can pin the digest.
const Image = "ghcr.io/gpuledger/gpuledger"

// Tag is the image tag in the manifests.
const Tag = ":v0.1.0"
