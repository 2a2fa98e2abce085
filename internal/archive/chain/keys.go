package chain

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/cli"
)

// Signer signs with a private Ed25519 key.
type Signer struct {
	key ed25519.PrivateKey
	id  string
}

// ReadSigner reads a private key in PEM, as `openssl genpkey -algorithm ed25519` writes it (PKCS #8, RFC 8410). If
// other users may read the file, it returns an error.
func ReadSigner(path string) (*Signer, error) {
	text, err := cli.ReadSecret(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("%s: must be a private key in PEM, as openssl genpkey -algorithm ed25519 writes it", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s: must be an Ed25519 key: %w", path, errors.Join(err))
	}
	id, err := keyID(key.Public())
	return &Signer{key, id}, err
}

// keyID returns the SHA-256 of a public key in DER, as `openssl pkey -pubout -outform DER` writes it.
func keyID(public any) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), err
}

// Keys contains public keys in the order of their use.
type Keys []Key

// Key is a public Ed25519 key.
type Key struct {
	id     string
	public ed25519.PublicKey
}

// ReadKeys reads public keys in PEM, oldest first, as `openssl pkey -pubout` writes them.
func ReadKeys(path string) (keys Keys, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		public, ok := parsed.(ed25519.PublicKey)
		if err != nil || !ok || block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("%s: must contain only Ed25519 public keys, as openssl pkey -pubout writes them: a %s is not such a key", path, block.Type)
		}
		id, err := keyID(public)
		if err != nil {
			return nil, err
		}
		keys = append(keys, Key{id, public})
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s contains no public key in PEM", path)
	}
	return keys, nil
}

// index returns -1 if the key is unknown.
func (k Keys) index(id string) int {
	for i := range k {
		if k[i].id == id {
			return i
		}
	}
	return -1
}

// The signature is in base64.
func (k Key) valid(message []byte, signature string) bool {
	raw, err := base64.StdEncoding.Strict().DecodeString(signature)
	return err == nil && ed25519.Verify(k.public, message, raw)
}

// signed reports whether one of the keys signed an entry or a checkpoint. It also returns the index of this key.
func (k Keys) signed(e table.Entry) (int, bool) {
	i := k.index(e.Key)
	return i, i >= 0 && k[i].valid(message(e), e.Signature)
}
