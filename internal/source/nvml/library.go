package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// defaultLibrary is the library that go-nvml loads by default.
const defaultLibrary = "libnvidia-ml.so.1"

// library is the driver's library after a successful nvmlInit.
type library struct {
	gonvml.Interface
	functions, symbols sync.Map // results of has and exact, by name
}

// After an error, only [library.version] may be called. Even nvmlShutdown is forbidden.
func initialise(lib gonvml.Interface, path string) (*library, error) {
	if err := probe(cmp.Or(path, defaultLibrary)); err != nil {
		return nil, err
	}
	if ret := lib.Init(); ret != gonvml.SUCCESS {
		return nil, fmt.Errorf("nvmlInit: %w", ret)
	}
	return &library{Interface: lib}, nil
}

// version returns the driver's version, or an empty text if it is unknown. It is the part of NVML's version that
// follows the CUDA version. The call also works after nvmlInit has failed.
func (l *library) version() string {
	version, _ := query(&inquiry{lib: l}, "nvmlSystemGetNVMLVersion", l.SystemGetNVMLVersion)
	_, driver, _ := strings.Cut(version, ".")
	return driver
}

// probe checks that the library can be loaded, and that it contains the functions that are called without an earlier
// lookup. go-nvml does not return the reason if loading fails. It also calls nvmlInit if the library is not NVML.
func probe(path string) error {
	library := dl.New(path, dl.RTLD_LAZY)
	if err := library.Open(); err != nil {
		// The loader's message begins with the path.
		return fmt.Errorf("load %w (is the NVIDIA driver installed, and is its library mounted here? --nvml.library sets the path)", err)
	}
	defer func() { _ = library.Close() }() // a library that was already loaded stays loaded
	for _, versions := range [][]string{{"nvmlInit_v2", "nvmlInit"}, {"nvmlShutdown"}, {"nvmlErrorString"}} {
		if !slices.ContainsFunc(versions, func(symbol string) bool { return library.Lookup(symbol) == nil }) {
			return fmt.Errorf("load %s: symbol %s is missing, so this is not the NVIDIA driver's library (--nvml.library sets the path)", path, versions[0])
		}
	}
	return nil
}

// has accepts any version of a function, because go-nvml falls back to older versions.
func (l *library) has(symbol string) bool {
	return once(&l.functions, symbol, func() bool {
		return slices.ContainsFunc([]string{"", "_v2", "_v3"}, func(version string) bool { return l.exact(symbol + version) })
	})
}

func (l *library) exact(symbol string) bool {
	return once(&l.symbols, symbol, func() bool { return l.Extensions().LookupSymbol(symbol) == nil })
}

func once(results *sync.Map, name string, function func() bool) bool {
	if result, ok := results.Load(name); ok {
		return result.(bool)
	}
	result := function()
	results.Store(name, result)
	return result
}

// An inquiry is a series of calls for one object, usually a GPU. It records whether a call has succeeded, and which
// errors occurred.
type inquiry struct {
	lib *library
	// answered is set after a call has succeeded. The code NOT_SUPPORTED does not count as an answer,
	// because drivers also return this code for lost GPUs.
	answered bool
	// retryable is set if a failed call may succeed later.
	retryable bool
	// lost is the error of a call that reported the loss of the GPU. After this error no further calls are made.
	lost error
	// failed is the first error of a call that may succeed later.
	failed error
}

// query makes no call if the library does not contain the function or if the GPU is lost.
func query[T any](q *inquiry, symbol string, call func() (T, gonvml.Return)) (T, error) {
	var none T
	if q.lost != nil {
		return none, q.lost
	}
	if !q.lib.has(symbol) {
		return none, fmt.Errorf("%s: %w", symbol, gonvml.ERROR_FUNCTION_NOT_FOUND)
	}
	v, ret := guarded(call)
	if ret == gonvml.SUCCESS {
		q.answered = true
		return v, nil
	}
	err := fmt.Errorf("%s: %w", symbol, ret)
	q.note(err)
	return none, err
}

// guarded makes a driver call and converts a panic to an error. go-nvml panics if a driver returns
// inconsistent values, for example a buffer size of 0.
func guarded[T any](call func() (T, gonvml.Return)) (v T, ret gonvml.Return) {
	defer func() {
		if recover() != nil {
			ret = gonvml.ERROR_UNKNOWN
		}
	}()
	return call()
}

func (q *inquiry) note(err error) {
	switch {
	case unsupported(err), errors.Is(err, gonvml.ERROR_NOT_FOUND):
		return
	case errors.Is(err, gonvml.ERROR_GPU_IS_LOST):
		q.lost = err
	}
	q.retryable = true
	if q.failed == nil {
		q.failed = err
	}
}

// err returns an error if the GPU is lost, or if no call has succeeded. If the GPU supports none of the calls, it
// returns nil.
func (q *inquiry) err() error {
	if q.lost != nil {
		return q.lost
	}
	if !q.answered {
		return q.failed
	}
	return nil
}

func hasCode(err error, codes ...gonvml.Return) bool {
	return slices.ContainsFunc(codes, func(code gonvml.Return) bool { return errors.Is(err, code) })
}

// unsupported reports whether the failed call will keep failing while this driver is loaded.
func unsupported(err error) bool {
	return hasCode(err, gonvml.ERROR_NOT_SUPPORTED, gonvml.ERROR_FUNCTION_NOT_FOUND, gonvml.ERROR_INVALID_ARGUMENT,
		gonvml.ERROR_ARGUMENT_VERSION_MISMATCH, gonvml.ERROR_NO_PERMISSION, gonvml.ERROR_DEPRECATED)
}

// gone reports whether the driver must be initialised again after an error.
func gone(err error) bool {
	return hasCode(err, gonvml.ERROR_UNINITIALIZED, gonvml.ERROR_DRIVER_NOT_LOADED, gonvml.ERROR_LIB_RM_VERSION_MISMATCH)
}
