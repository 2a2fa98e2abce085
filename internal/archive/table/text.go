package table

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// MaxText is the maximum length of the value of a label, in bytes. It applies to all programs of
// gpuledger, and is longer than any name in Kubernetes. Every database can index the names of a row
// with this length.
const MaxText = 256

// shorten returns a text that every sink can store. It cuts texts that are too long. It also cuts
// texts with zero bytes or invalid UTF-8, because PostgreSQL rejects them. It then appends "~" and
// the SHA-256 of the whole text, so that different texts remain different.
func shorten(text string) string {
	if len(text) <= MaxText && utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text
	}
	digest := sha256.Sum256([]byte(text))
	mark := "~" + hex.EncodeToString(digest[:])
	valid := strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	return strings.ToValidUTF8(valid[:min(len(valid), MaxText-len(mark))], "") + mark
}
