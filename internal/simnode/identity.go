package simnode

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// hexID derives 64 hex digits, the format of a container id, from a name.
func hexID(name ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(name, "\x00")))
	return hex.EncodeToString(sum[:])
}

// uuid derives a UUID, the format of a pod's UID, from a name.
func uuid(name ...string) string {
	h := hexID(name...)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:32]
}
