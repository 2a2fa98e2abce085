// Package oci builds images without a container engine from the Dockerfile, which remains the only definition of an
// image. It reads a stage of the Dockerfile and writes the stage's image as an OCI archive. The stage must start from
// scratch and only copy files and folders. Stages that run programs are rejected.
package oci
