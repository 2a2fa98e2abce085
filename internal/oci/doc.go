// Package oci builds images without a container engine, so that the Dockerfile remains the only
// definition of an image. The package reads a stage of the Dockerfile and writes the image that
// this stage defines as an OCI archive. The stage must start from scratch and only copy files
// and folders; stages that run programs are rejected.
package oci
