package podmapper

import "strings"

// validUID reports whether s can be the UID of a pod, which is a UUID or has 32 hexadecimal digits. The UID of a static
// pod on the node is a hash of its configuration, which has 32 digits. The mirror pod in the API server has another
// UID.
func validUID(s string) bool {
	return validUUID(s) || len(s) == 32 && isHex(s)
}

// validUUID reports whether s consists of hexadecimal digits in the form 8-4-4-4-12.
func validUUID(s string) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	return isHex(s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:])
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }
