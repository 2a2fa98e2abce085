package nvml

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

typedef int (*list_function)(void *device, unsigned int *count, void *rows);
typedef int (*samples_function)(void *device, void *rows, unsigned int *count, unsigned long long since);
typedef int (*buffer_function)(void *device, int kind, unsigned long long since, int *type, unsigned int *count, void *rows);

// The types nvmlGpmMetric_t and nvmlGpmMetricsGet_t of nvml.h.
enum { VERSION = 1, MAX_METRICS = 477 };
struct metric { unsigned int id, result; double value; const char *texts[3]; };
struct metrics { unsigned int version, count; void *older, *newer; struct metric metrics[MAX_METRICS]; };
typedef int (*metrics_function)(struct metrics *get);

// The driver's library is loaded with global symbols.
static void *find(const char *symbol) { return dlsym(RTLD_DEFAULT, symbol); }

static int list(void *function, void *device, unsigned int *count, void *rows) {
	return ((list_function)function)(device, count, rows);
}

static int list_samples(void *function, void *device, void *rows, unsigned int *count, unsigned long long since) {
	return ((samples_function)function)(device, rows, count, since);
}

static int list_buffer(void *function, void *device, int kind, int *type, unsigned int *count, void *rows) {
	return ((buffer_function)function)(device, kind, 0, type, count, rows);
}

static int list_metrics(void *function, void *older, void *newer, unsigned int count, struct metric *metrics) {
	struct metrics get = {.version = VERSION, .count = count, .older = older, .newer = newer};
	memcpy(get.metrics, metrics, count * sizeof *metrics);
	int result = ((metrics_function)function)(&get);
	for (unsigned int i = 0; i < count; i++)
		metrics[i].result = get.metrics[i].result, metrics[i].value = get.metrics[i].value;
	return result;
}
*/
import "C"

import (
	"math"
	"reflect"
	"unsafe"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// The functions in this file read lists of limited length. go-nvml is not used for lists, because
// it allocates as many rows as the driver reports.

// maxRows is the maximum number of rows in a list. A GPU has room for hundreds of contexts, and accounting keeps
// 4,000 processes. A longer list is rejected with ERROR_INSUFFICIENT_SIZE and not truncated, because the missing
// processes would seem to have ended.
const maxRows = 4096

// fewRows is enough for most lists.
const fewRows = 64

// If the buffer is too small, bounded repeats the call with maxRows rows.
func bounded[T any](fill func(rows []T) (uint32, ret)) ([]T, ret) {
	for _, size := range []int{fewRows, maxRows} {
		rows := make([]T, size)
		n, r := fill(rows)
		switch {
		case r == gonvml.SUCCESS && int64(n) <= int64(size):
			return rows[:n], r
		case r != gonvml.SUCCESS && r != gonvml.ERROR_INSUFFICIENT_SIZE:
			return nil, r
		}
	}
	return nil, gonvml.ERROR_INSUFFICIENT_SIZE
}

func processList(h device, symbol string) ([]gonvml.ProcessInfo, ret) {
	for _, version := range []string{"_v3", "_v2"} { // both versions use the same rows
		if f := find(symbol + version); f != nil {
			return listOf[gonvml.ProcessInfo](f, h)
		}
	}
	rows, r := listOf[gonvml.ProcessInfo_v1](find(symbol), h)
	return gonvml.ProcessInfo_v1Slice(rows).ToProcessInfoSlice(), r
}

func accountingPIDs(h device) ([]uint32, ret) {
	return listOf[uint32](find("nvmlDeviceGetAccountingPids"), h)
}

func listOf[T any](function unsafe.Pointer, h device) ([]T, ret) {
	if function == nil {
		return nil, gonvml.ERROR_FUNCTION_NOT_FOUND
	}
	return bounded(func(rows []T) (uint32, ret) {
		n := C.uint(len(rows))
		r := C.list(function, pointer(h), &n, unsafe.Pointer(&rows[0]))
		return uint32(n), ret(r)
	})
}

// processUtilization reads the samples after the given time. NOT_FOUND means that there are no such samples.
func processUtilization(h device, since uint64) ([]gonvml.ProcessUtilizationSample, ret) {
	function := find("nvmlDeviceGetProcessUtilization")
	if function == nil {
		return nil, gonvml.ERROR_FUNCTION_NOT_FOUND
	}
	rows, r := bounded(func(rows []gonvml.ProcessUtilizationSample) (uint32, ret) {
		n := C.uint(len(rows))
		r := C.list_samples(function, pointer(h), unsafe.Pointer(&rows[0]), &n, C.ulonglong(since))
		return uint32(n), ret(r)
	})
	if r == gonvml.ERROR_NOT_FOUND {
		return nil, gonvml.SUCCESS
	}
	return rows, r
}

// maxSamples is higher than the number of samples in any buffer; nvidia-smi shows up to 120
// samples.
const maxSamples = 1024

// The values of the samples must be unsigned integers.
func bufferedSamples(h device, kind gonvml.SamplingType) ([]gonvml.Sample, ret) {
	function := find("nvmlDeviceGetSamples")
	if function == nil {
		return nil, gonvml.ERROR_FUNCTION_NOT_FOUND
	}
	rows := make([]gonvml.Sample, maxSamples)
	n, valueType := C.uint(len(rows)), C.int(-1)
	switch r := ret(C.list_buffer(function, pointer(h), C.int(kind), &valueType, &n, unsafe.Pointer(&rows[0]))); {
	case r == gonvml.ERROR_NOT_FOUND:
		return nil, gonvml.SUCCESS
	case r != gonvml.SUCCESS:
		return nil, r
	case int(n) > len(rows) || gonvml.ValueType(valueType) != gonvml.VALUE_TYPE_UNSIGNED_INT:
		return nil, gonvml.ERROR_NO_DATA
	}
	return rows[:n], gonvml.SUCCESS
}

type metric = C.struct_metric

func newMetric(id gonvml.GpmMetricId) metric {
	return metric{id: C.uint(id), result: C.uint(gonvml.ERROR_NOT_SUPPORTED), value: C.double(math.NaN())}
}

// gpmMetrics does not use go-nvml, which copies all 477 metrics four times.
func gpmMetrics(older, newer gonvml.GpmSample, metrics []metric) ret {
	function := find("nvmlGpmMetricsGet")
	if function == nil {
		return gonvml.ERROR_FUNCTION_NOT_FOUND
	}
	return ret(C.list_metrics(function, pointer(older), pointer(newer), C.uint(len(metrics)), &metrics[0]))
}

func find(symbol string) unsafe.Pointer {
	name := append([]byte(symbol), 0)
	return C.find((*C.char)(unsafe.Pointer(&name[0])))
}

// pointer returns the driver's handle that an unexported type of go-nvml contains.
func pointer(h any) unsafe.Pointer {
	return reflect.ValueOf(h).FieldByName("Handle").UnsafePointer()
}
