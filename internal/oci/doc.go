// Package oci builds images from the Dockerfile without a container engine. It reads a stage of the Dockerfile and
// writes the stage's image as an OCI archive. The stage must start from scratch and only copy files and folders. Stages
// that run programs are rejected.
package oci
