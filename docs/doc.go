// Package docs is the folder of the documentation. It holds its tests and no code but
// what writes two pages of it.
package docs

//go:generate go run -ldflags=-extldflags=-Wl,-z,lazy ./gen .
