// Package owner finds the owner of each process that uses a GPU. A [Chain] reads the process once
// and calls its resolvers in order. Each resolver handles one kind of owner: package podmapper,
// for example, handles the containers of pods.
package owner
