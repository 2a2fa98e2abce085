// Package docs is the folder of the documentation. It holds its tests and no code.
package docs
