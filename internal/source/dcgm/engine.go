package dcgm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// Return codes (dcgm_structs.h, dcgmReturn_t).
const (
	codeUninitialized = -10
	codeNoData        = -14
	codeNoFunction    = -20
	codeDisconnected  = -21
)

// An engine is the connection to a host engine. Only the goroutine in the enricher's lane uses it.
type engine struct {
	open bool
	// library and version are the versions of the client library and of the engine.
	library, version string
}

var errClosed = errors.New("not connected")

func (e *engine) do(name string, call func() error) (err error) {
	if !e.open {
		return errClosed
	}
	if err := guarded(call); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// guarded makes a call and converts a panic to an error. go-dcgm panics if the library returns
// inconsistent values, for example an impossible number of MIG instances.
func guarded(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("invalid response from libdcgm: %v", r)
		}
	}()
	return call()
}

// code returns 0 if the error has no return code.
func code(err error) int {
	if e, ok := errors.AsType[*godcgm.Error](err); ok {
		return int(e.Code)
	}
	return 0
}

// gone reports whether a new connection is required after an error.
func gone(err error) bool {
	return errors.Is(err, errClosed) || errors.Is(err, errChanged) || slices.Contains([]int{codeUninitialized, codeDisconnected}, code(err))
}

func (e *engine) connect(library string, a Address) error {
	if err := load(library); err != nil {
		return err
	}
	if err := a.check(); err != nil {
		return fmt.Errorf("connect to %s: %w", a, err)
	}
	mode, args := godcgm.Standalone, []string{a.target, "0"}
	switch a.kind {
	case socket:
		args[1] = "1"
	case uri:
		args = args[:1]
	case embedded:
		mode, args = godcgm.Embedded, nil
	}
	if err := guarded(func() error { _, err := godcgm.Init(mode, args...); return err }); err != nil {
		return fmt.Errorf("connect to %s: %w", a, err)
	}
	e.open = true
	e.library = e.build("dcgmVersionInfo", godcgm.GetVersionInfo)
	e.version = e.build("dcgmHostengineVersionInfo", godcgm.GetHostengineVersionInfo)
	return nil
}

// The binding discards the connection even if an error occurs.
func (e *engine) close() error {
	err := e.do("dcgmDisconnect", godcgm.Shutdown)
	e.open = false
	return err
}

func (e *engine) meta(f field) (meta godcgm.FieldMeta, ok bool) {
	err := e.do("DcgmFieldGetById", func() (err error) {
		meta, err = godcgm.FieldGetByID(f)
		return err
	})
	return meta, err == nil
}

// build returns the version in a list of key:value pairs, or an empty string.
func (e *engine) build(name string, get func() (godcgm.VersionInfo, error)) (version string) {
	_ = e.do(name, func() error {
		info, err := get()
		for pair := range strings.SplitSeq(info.RawBuildInfoString, ";") {
			if key, v, _ := strings.Cut(pair, ":"); key == "version" {
				version = v
			}
		}
		return err
	})
	return version
}

// If the library has a newer minor version than the engine, the engine may reject its requests. Engines before 4.6
// reject all requests for values from libraries of version 4.6.
func (e *engine) skewed() bool {
	library, ok1 := minor(e.library)
	version, ok2 := minor(e.version)
	return ok1 && ok2 && library > version
}

func minor(version string) (n int, ok bool) {
	var major, second int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &second)
	return major*1000 + second, err == nil
}

func (e *engine) explain(err error) error {
	if code(err) == codeNoFunction {
		return fmt.Errorf("%w (libdcgm %s is newer than host engine %s, so the host engine does not support the requests of libdcgm: install the libdcgm version of the host engine)",
			err, e.library, e.version)
	}
	return err
}
