package podmapper

import (
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/proc"
)

func TestUIDs(t *testing.T) {
	tests := []struct {
		name, good string
		valid      func(string) bool
	}{
		{"UUID", plainUUID, validUUID},
		{"UID of a pod", uid, validUID},
		{"UID of a static pod", hash, validUID},
		{"container", id, proc.IsContainerID},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, good := range []string{tt.good, strings.ToUpper(tt.good)} {
				if !tt.valid(good) {
					t.Errorf("%q is rejected", good)
				}
			}
			for i := range tt.good {
				for _, bad := range []string{tt.good[:i] + "x" + tt.good[i+1:], tt.good[:i] + tt.good[i+1:], tt.good[:i] + "0" + tt.good[i:]} {
					if tt.valid(bad) {
						t.Errorf("%q is accepted", bad)
					}
				}
			}
		})
	}
}
