// Package driver reads one GPU through NVIDIA's library without the exporter's code. Thus the bench can compare the
// exporter's assumptions with the driver. It contains only the functions that the comparisons need.
package driver

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "nvml.h"
import "C"

import (
	"errors"
	"fmt"
	"time"
	"unsafe"
)

// These are ids of fields for nvmlDeviceGetFieldValues.
const (
	AveragePower = 185
	InstantPower = 186
	EnergyField  = 191
)

// A field has a value for the GPU or for the module.
const (
	ScopeGPU    = 0
	ScopeModule = 1
)

// Return is an nvmlReturn_t other than NVML_SUCCESS.
type Return int

// ErrNotSupported means that this GPU or driver does not support a value.
const (
	ErrNotSupported Return = C.NOT_SUPPORTED
	errMissing      Return = C.MISSING
)

func (r Return) Error() string {
	switch r {
	case ErrNotSupported:
		return "not supported by this GPU or driver"
	case errMissing:
		return "not in this driver's library"
	case 4:
		return "no permission"
	}
	return fmt.Sprintf("NVML returned %d", int(r))
}

func check(call string, r C.int) error {
	if r == C.SUCCESS {
		return nil
	}
	return fmt.Errorf("%s: %w", call, Return(r))
}

// Device is one GPU. Its methods may be called concurrently.
type Device struct {
	handle                  unsafe.Pointer
	UUID, Name, Bus, Driver string
	Limit                   float64 // enforced power limit in W; 0 if it is unknown
}

// Open opens the GPU with the given index. If the path of the library is empty, the loader searches for the library.
func Open(library string, index int) (*Device, error) {
	if library == "" {
		library = "libnvidia-ml.so.1"
	}
	path := C.CString(library)
	defer C.free(unsafe.Pointer(path))
	var code C.int
	if text := C.nvml_open(path, &code); text != nil {
		return nil, errors.New(C.GoString(text))
	}
	d := new(Device)
	if err := check("nvmlInit", code); err != nil {
		return nil, err
	}
	d.handle = C.nvml_device(C.uint(index), &code)
	if err := check("nvmlDeviceGetHandleByIndex", code); err != nil {
		return nil, err
	}
	text := func(call string, read func(*C.char, C.uint) C.int) (string, error) {
		var buffer [128]C.char
		err := check(call, read(&buffer[0], C.uint(len(buffer))))
		return C.GoString(&buffer[0]), err
	}
	var errs [4]error
	d.UUID, errs[0] = text("nvmlDeviceGetUUID", func(b *C.char, n C.uint) C.int { return C.nvml_text(d.handle, 0, b, n) })
	d.Name, errs[1] = text("nvmlDeviceGetName", func(b *C.char, n C.uint) C.int { return C.nvml_text(d.handle, 1, b, n) })
	d.Driver, errs[2] = text("nvmlSystemGetDriverVersion", func(b *C.char, n C.uint) C.int { return C.nvml_text(d.handle, 2, b, n) })
	d.Bus, errs[3] = text("nvmlDeviceGetPciInfo", func(b *C.char, n C.uint) C.int { return C.nvml_bus(d.handle, b, n) })
	limit, _ := d.number("nvmlDeviceGetEnforcedPowerLimit", 1) // the limit is unknown for some GPUs
	d.Limit = limit / 1000
	return d, errors.Join(errs[:]...)
}

func (d *Device) number(call string, what C.int) (float64, error) {
	var n C.uint
	err := check(call, C.nvml_number(d.handle, what, &n))
	return float64(n), err
}

// Power returns the value of nvmlDeviceGetPowerUsage in watts.
func (d *Device) Power() (float64, error) {
	mw, err := d.number("nvmlDeviceGetPowerUsage", 0)
	return mw / 1000, err
}

// Energy returns the value of nvmlDeviceGetTotalEnergyConsumption in joules.
func (d *Device) Energy() (float64, error) {
	var mj C.ulonglong
	err := check("nvmlDeviceGetTotalEnergyConsumption", C.nvml_energy(d.handle, &mj))
	return float64(mj) / 1000, err
}

// Field returns the value of an energy or power field for a scope, in joules or watts.
func (d *Device) Field(id, scope int) (float64, error) {
	var v C.double
	err := check(fmt.Sprintf("field %d, scope %d", id, scope), C.nvml_field(d.handle, C.uint(id), C.uint(scope), &v))
	return float64(v) / 1000, err
}

// Processes returns the PIDs of the GPU's compute contexts or, if mps is set, of its MPS clients.
func (d *Device) Processes(mps bool) ([]int, error) {
	kind := C.int(0)
	if mps {
		kind = 1
	}
	rows := make([]C.process_row, 256)
	n := C.uint(len(rows))
	if err := check("running processes", C.nvml_processes(d.handle, kind, &n, &rows[0])); err != nil {
		return nil, err
	}
	pids := make([]int, n)
	for i := range pids {
		pids[i] = int(rows[i].pid)
	}
	return pids, nil
}

// A Row is a result of nvmlDeviceGetProcessUtilization.
type Row struct {
	PID int
	At  time.Time // time of the newest sample of the process
	SM  float64   // from 0 to 1
}

// Utilization returns the rows with samples after the given time. It returns no rows if there is no newer sample. It
// omits rows without a process or with impossible numbers.
func (d *Device) Utilization(since time.Time) ([]Row, error) {
	buffer := make([]C.utilization_row, 256)
	n := C.uint(len(buffer))
	r := C.nvml_utilization(d.handle, C.ulonglong(max(since.UnixMicro(), 1)), &n, &buffer[0])
	if r == C.NOT_FOUND {
		return nil, nil
	}
	if err := check("nvmlDeviceGetProcessUtilization", r); err != nil {
		return nil, err
	}
	var rows []Row
	for _, row := range buffer[:n] {
		if at := time.UnixMicro(int64(row.time)); row.pid != 0 && row.sm <= 100 && at.After(since) {
			rows = append(rows, Row{PID: int(row.pid), At: at, SM: float64(row.sm) / 100})
		}
	}
	return rows, nil
}

// Sample is a power sample in watts.
type Sample struct {
	At    time.Time
	Power float64
}

// PowerSamples returns the samples from nvmlDeviceGetSamples that are newer than the given time, oldest first.
func (d *Device) PowerSamples(since time.Time) ([]Sample, error) {
	buffer := make([]C.power_sample, 4096)
	n, kind := C.uint(len(buffer)), C.int(0)
	r := C.nvml_power_samples(d.handle, C.ulonglong(max(since.UnixMicro(), 0)), &kind, &n, &buffer[0])
	if r == C.NOT_FOUND {
		return nil, nil
	}
	if err := check("nvmlDeviceGetSamples", r); err != nil {
		return nil, err
	}
	var samples []Sample
	for _, s := range buffer[:n] {
		if at := time.UnixMicro(int64(s.time)); at.After(since) {
			mw := *(*C.uint)(unsafe.Pointer(&s.value)) // power samples have the type unsigned int
			samples = append(samples, Sample{At: at, Power: float64(mw) / 1000})
		}
	}
	return samples, nil
}

// Sizes returns the sizes of the C structs, by the names of their types in go-nvml.
func Sizes() map[string]uintptr {
	return map[string]uintptr{
		"ProcessUtilizationSample": C.sizeof_utilization_row,
		"ProcessInfo":              C.sizeof_process_row,
		"FieldValue":               C.sizeof_field_value,
		"Sample":                   C.sizeof_power_sample,
	}
}
