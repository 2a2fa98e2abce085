package chain

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// envelope is a DSSE envelope (Dead Simple Signing Envelope, version 1). The signature is over the exact bytes of the
// payload, so the JSON needs no canonical form.
type envelope struct {
	Payload     string      `json:"payload"` // base64
	PayloadType string      `json:"payloadType"`
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"` // base64
}

// preAuth returns the bytes that are signed (DSSE's pre-authentication encoding).
func preAuth(as string, payload []byte) []byte {
	return append(fmt.Appendf(nil, "DSSEv1 %d %s %d ", len(as), as, len(payload)), payload...)
}

// Seal signs a payload, and returns it in a DSSE envelope.
func (s *Signer) Seal(as string, payload []byte) ([]byte, error) {
	sig := base64.StdEncoding.EncodeToString(ed25519.Sign(s.key, preAuth(as, payload)))
	return json.MarshalIndent(envelope{base64.StdEncoding.EncodeToString(payload), as, []signature{{s.id, sig}}}, "", "  ")
}

// Open returns the payload of a DSSE envelope, and the identifier of its key. The payload must have the given type, and
// one of the keys must have signed it.
func (k Keys) Open(as string, text []byte) (payload []byte, key string, err error) {
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, "", fmt.Errorf("not a signed document: %w", err)
	}
	if e.PayloadType != as {
		return nil, "", fmt.Errorf("the document has the type %q, must be %q", e.PayloadType, as)
	}
	if payload, err = base64.StdEncoding.Strict().DecodeString(e.Payload); err != nil {
		return nil, "", fmt.Errorf("payload: %w", err)
	}
	for _, s := range e.Signatures {
		for _, known := range k {
			if known.valid(preAuth(as, payload), s.Sig) {
				return payload, known.id, nil
			}
		}
	}
	return nil, "", errors.New("the document has no valid signature from the given keys: it was changed, or another key signed it")
}
