package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

const readAgain = time.Minute

var errMissing = errors.New("no certificate yet")

// Holder holds a server's certificate. It is safe for concurrent use.
type Holder struct {
	current atomic.Pointer[tls.Certificate]
}

// Set replaces the certificate. If the new certificate is invalid, Set returns an error and keeps the old certificate.
func (h *Holder) Set(certificate, key []byte) error {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	h.current.Store(&pair)
	return nil
}

// Get implements the function GetCertificate of [tls.Config].
func (h *Holder) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := h.current.Load(); c != nil {
		return c, nil
	}
	return nil, errMissing
}

// Expiry returns the time at which the certificate expires, or zero if there is no certificate.
func (h *Holder) Expiry() time.Time {
	if c := h.current.Load(); c != nil {
		return c.Leaf.NotAfter
	}
	return time.Time{}
}

// Follow reads the certificate from the files tls.crt and tls.key of a folder, such as a mounted Secret, until the
// context ends. While the files are invalid, it keeps the last valid certificate.
func (h *Holder) Follow(ctx context.Context, folder string, log *slog.Logger) {
	var read [2][]byte
	logged := ""
	for {
		certificate, key, err := files(folder)
		if err == nil && (!bytes.Equal(read[0], certificate) || !bytes.Equal(read[1], key)) {
			if err = h.Set(certificate, key); err == nil {
				read = [2][]byte{certificate, key}
				log.Info("read the webhook's certificate", "expiry", h.Expiry())
			}
		}
		if text := fmt.Sprint(err); err != nil && text != logged {
			log.Error("cannot read the webhook's certificate, will retry", "err", err)
			logged = text
		} else if err == nil {
			logged = ""
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(readAgain):
		}
	}
}

func files(folder string) (certificate, key []byte, err error) {
	certificate, err = os.ReadFile(filepath.Join(folder, Server))
	if err != nil {
		return nil, nil, err
	}
	key, err = os.ReadFile(filepath.Join(folder, ServerKey))
	return certificate, key, err
}
