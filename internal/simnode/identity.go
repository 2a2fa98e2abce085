package simnode

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// hexID derives 64 hex digits from a name. A container id has this format.
func hexID(name ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(name, "\x00")))
	return hex.EncodeToString(sum[:])
}

// uuid derives a UUID from a name. The UID of a pod has this format.
func uuid(name ...string) string {
	h := hexID(name...)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:32]
}
