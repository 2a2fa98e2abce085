// Package certificate makes and holds the two certificates for the reconciler's webhook. The first certificate belongs
// to an authority that the API server trusts only for this webhook. This authority signs the second certificate, which
// is the server certificate.
//
// The authority's certificate does not expire. Otherwise all API servers would have to trust a new authority before it
// could sign its first certificate. The server certificate is renewed before it expires.
package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// These are the keys of the Secret. The values are PEM.
const (
	Authority    = "ca.crt"
	AuthorityKey = "ca.key"
	Server       = corev1.TLSCertKey
	ServerKey    = corev1.TLSPrivateKeyKey
)

const (
	// lifetime is the period for which a server certificate is valid.
	lifetime = 90 * 24 * time.Hour
	// A certificate is renewed this time before its expiry.
	early = 30 * 24 * time.Hour
	// The validity of a certificate starts this time before now. So API servers with slow clocks also accept a new
	// certificate.
	backdate = 24 * time.Hour
)

// never is the expiry time of a certificate that does not expire (RFC 5280, 4.1.2.5).
var never = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

type pair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Renew returns the data for the Secret: an authority and a server certificate. The server certificate is valid for the
// host for at least a month. changed reports whether the returned data differ from the given data. Renew keeps an
// existing authority, because the API server trusts it.
func Renew(data map[string][]byte, host string, now time.Time) (renewed map[string][]byte, changed bool, err error) {
	renewed = maps.Clone(data)
	if renewed == nil {
		renewed = make(map[string][]byte)
	}
	if len(data[Authority]) == 0 && len(data[AuthorityKey]) == 0 {
		if err := create(renewed, now); err != nil {
			return nil, false, fmt.Errorf("create the authority: %w", err)
		}
	}
	authority, err := parse(renewed[Authority], renewed[AuthorityKey])
	if err != nil {
		return nil, false, fmt.Errorf("the keys %s and %s of the Secret are invalid: remove both keys, so that a new authority is created: %w", Authority, AuthorityKey, err)
	}
	if valid(renewed, authority.certificate, host, now) {
		return renewed, false, nil
	}
	if err := issue(renewed, authority, host, now); err != nil {
		return nil, false, fmt.Errorf("issue the certificate: %w", err)
	}
	return renewed, true, nil
}

// valid reports whether the authority signed the server certificate, and whether the certificate is valid for the host
// now and in a month.
func valid(data map[string][]byte, authority *x509.Certificate, host string, now time.Time) bool {
	server, err := parse(data[Server], data[ServerKey])
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	for _, at := range []time.Time{now, now.Add(early)} {
		if _, err := server.certificate.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: at}); err != nil {
			return false
		}
	}
	return true
}

func create(data map[string][]byte, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "gpuledger-webhook authority"}, NotBefore: now.Add(-backdate), NotAfter: never,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	data[Authority], data[AuthorityKey], err = sign(template, key, &pair{template, key})
	return err
}

func issue(data map[string][]byte, authority *pair, host string, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "gpuledger-webhook"}, DNSNames: []string{host}, NotBefore: now.Add(-backdate), NotAfter: now.Add(lifetime),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	data[Server], data[ServerKey], err = sign(template, key, authority)
	return err
}

// sign returns a certificate and its key as PEM.
func sign(template *x509.Certificate, key *ecdsa.PrivateKey, authority *pair) (certificate, private []byte, err error) {
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.certificate, key.Public(), authority.key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", keyDER), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func parse(certificate, key []byte) (*pair, error) {
	both, err := tls.X509KeyPair(bytes.TrimSpace(certificate), key)
	if err != nil {
		return nil, err
	}
	private, ok := both.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("key is not an ECDSA key")
	}
	return &pair{both.Leaf, private}, nil
}
