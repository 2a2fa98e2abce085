// Package owner finds the owner of each process that uses a GPU. A [Chain] reads the process
// once and asks its resolvers in their order; each resolves one kind of owner, such as package
// podmapper the containers of pods.
package owner
