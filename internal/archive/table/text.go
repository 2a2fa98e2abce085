package table

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// MaxText is the maximum length of the value of a label, in bytes: that of all programs of gpuledger,
// and more than Kubernetes allows for any name. Every database can have an index of the names of a
// row with this length.
const MaxText = 256

// shorten returns a text that every sink can keep. A text that is too long, or has zero bytes or
// invalid UTF-8, which PostgreSQL rejects, ends with "~" and the SHA-256 of the whole text. So
// different texts remain different.
func shorten(text string) string {
	if len(text) <= MaxText && utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text
	}
	digest := sha256.Sum256([]byte(text))
	mark := "~" + hex.EncodeToString(digest[:])
	valid := strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	return strings.ToValidUTF8(valid[:min(len(valid), MaxText-len(mark))], "") + mark
}
