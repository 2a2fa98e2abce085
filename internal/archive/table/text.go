package table

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// MaxText is the maximum length of a label's value in bytes, in all programs of gpuledger. All names in Kubernetes are
// shorter. Every database can index names of this length.
const MaxText = 256

// shorten returns a string that every sink can store. It truncates long strings. It replaces zero bytes and invalid
// UTF-8, which PostgreSQL rejects. If it changes a string, it appends "~" and the SHA-256 of the original, so that
// different strings remain different.
func shorten(text string) string {
	if len(text) <= MaxText && utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text
	}
	digest := sha256.Sum256([]byte(text))
	mark := "~" + hex.EncodeToString(digest[:])
	valid := strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	return strings.ToValidUTF8(valid[:min(len(valid), MaxText-len(mark))], "") + mark
}
