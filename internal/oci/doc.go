// Package oci builds images without a container engine: it reads a stage of the Dockerfile that
// starts from scratch and only copies files and folders, and writes the same image as an OCI
// archive. So the Dockerfile remains the only definition of an image. Stages that run programs are
// rejected.
package oci
