// Package owner finds the owner of each process that uses a GPU. A [Chain] reads the process and calls its resolvers
// in order. Each resolver finds owners of one kind. For example, package podmapper finds the containers of pods.
package owner
