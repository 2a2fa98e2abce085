// Package style contains the style sheet of the pages of all programs.
package style

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
)

// Sheet is the style sheet.
//
//go:embed page.css
var Sheet string

// Source returns the source expression of a Content-Security-Policy that allows a style sheet in a page.
func Source(sheet string) string {
	sum := sha256.Sum256([]byte(sheet))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
