// Package permanent marks errors that a retry cannot fix, because a sink rejects the data. All other errors are
// temporary. They include errors with a cause that an administrator must repair, such as a wrong password.
package permanent

import (
	"errors"
	"net/http"
	"strings"
	"syscall"
)

// Err matches permanent errors in [errors.Is].
var Err = errors.New("permanent error")

type failure struct{ error }

func (f failure) Unwrap() error        { return f.error }
func (f failure) Is(target error) bool { return target == Err }

// Error marks an error as permanent. It returns nil for nil.
func Error(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// Is reports whether an error is permanent.
func Is(err error) bool { return errors.Is(err, Err) }

// If marks an error as permanent if the condition is true.
func If(condition bool, err error) error {
	if condition {
		return Error(err)
	}
	return err
}

// Path reports whether a file system rejects the name of a file.
func Path(err error) bool {
	return errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EILSEQ) || errors.Is(err, syscall.EINVAL)
}

// Status reports whether a server rejects the content of a request. Other statuses are temporary: an administrator can
// repair credentials and addresses, and conflicts and rate limits end by themselves.
func Status(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusConflict, http.StatusPreconditionFailed, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status/100 == 4
}

// SQLState reports whether a database rejects values. The classes are 22 (data exceptions), 23 (violated constraints)
// and 54 (a row or its index is too large).
func SQLState(code string) bool {
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "54")
}
