package dcgm

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
*/
import "C"

import (
	"cmp"
	"fmt"
	"runtime"
	"unsafe"
)

// defaultLibrary is the library that go-dcgm loads by default.
const defaultLibrary = "libdcgm.so.4"

// symbols contains the library's functions that this package needs. The function that connects to a URI is missing,
// because go-dcgm looks it up itself.
var symbols = []string{
	"errorString", "dcgmInit", "dcgmShutdown", "dcgmConnect_v2", "dcgmDisconnect", "dcgmStartEmbedded", "dcgmStopEmbedded",
	"dcgmVersionInfo", "dcgmHostengineVersionInfo", "dcgmGetAllSupportedDevices", "dcgmGetGpuInstanceHierarchy",
	"dcgmGroupCreate", "dcgmGroupAddEntity", "dcgmGroupDestroy", "dcgmFieldGroupCreate", "dcgmFieldGroupDestroy",
	"dcgmWatchFields", "dcgmUnwatchFields", "dcgmUpdateAllFields", "dcgmEntitiesGetLatestValues",
	"DcgmFieldGetById",
}

// load loads the library for the whole process and checks that it contains the symbols. go-dcgm then finds the library
// by its soname. The library is never unloaded, because lazily bound calls need it.
func load(path string) error {
	path = cmp.Or(path, defaultLibrary)
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	runtime.LockOSThread() // dlerror returns the error of this thread
	defer runtime.UnlockOSThread()
	handle := C.dlopen(name, C.RTLD_LAZY|C.RTLD_GLOBAL)
	if handle == nil {
		return fmt.Errorf("load %s: %s (the library is part of NVIDIA's package datacenter-gpu-manager-4-core; --dcgm.library sets the path)", path, C.GoString(C.dlerror()))
	}
	for _, s := range symbols {
		symbol := C.CString(s)
		found := C.dlsym(handle, symbol) != nil
		C.free(unsafe.Pointer(symbol))
		if !found {
			return fmt.Errorf("load %s: symbol %s is missing, so this is not a DCGM 4 library (--dcgm.library sets the path)", path, s)
		}
	}
	return nil
}
