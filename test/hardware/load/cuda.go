package main

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "cuda.h"
import "C"

import (
	_ "embed"
	"errors"
	"time"
	"unsafe"
)

//go:embed spin.ptx
var ptx string

// device represents the only context on the GPU. The context belongs to the thread that opened it.
type device struct{}

func open(library, bus string) (device, error) {
	texts := [...]*C.char{C.CString(library), C.CString(bus), C.CString(ptx)}
	defer func() {
		for _, t := range texts {
			C.free(unsafe.Pointer(t))
		}
	}()
	return device{}, failed(C.cuda_open(texts[0], texts[1], texts[2]))
}

func (device) launch(slot int, iterations uint64) error {
	return failed(C.cuda_launch(C.int(slot), C.ulonglong(iterations)))
}

// wait returns the kernel's duration, measured by the events before and after the kernel.
func (device) wait(slot int) (time.Duration, error) {
	var ms C.float
	err := failed(C.cuda_wait(C.int(slot), &ms))
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

func (device) close() error { return failed(C.cuda_close()) }

func failed(message *C.char) error {
	if message == nil {
		return nil
	}
	return errors.New(C.GoString(message))
}
