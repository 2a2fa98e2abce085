// Package certificate makes certificates for tests of TLS.
package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Write makes a self-signed certificate for host names or IP addresses. It is valid for a day. Write stores it in the
// files cert.pem and key.pem in a folder.
func Write(t testing.TB, folder string, hosts ...string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate, errCertificate := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	private, errKey := x509.MarshalPKCS8PrivateKey(key)
	err = errors.Join(errCertificate, errKey,
		write(filepath.Join(folder, "cert.pem"), "CERTIFICATE", certificate), write(filepath.Join(folder, "key.pem"), "PRIVATE KEY", private))
	if err != nil {
		t.Fatal(err)
	}
}

func write(file, kind string, content []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
}
