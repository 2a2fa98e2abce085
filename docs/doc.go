// Package docs contains the documentation, its tests, and a program that writes the generated pages.
package docs

//go:generate go run -trimpath -ldflags=-extldflags=-Wl,-z,lazy ./gen .
